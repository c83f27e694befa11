// The answer to one request while it is on its way.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "http/connection.h"

namespace fathom {

struct Connection::Answer {
  uint64_t number = 0;  // of the exchange
  std::string id, method, path;
  std::string key;  // name of the API key
  std::string allow_origin;
  Admission admission;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::function<void()> on_closed;
  bool http10 = false;
  bool head_only = false;   // HEAD: no body is sent
  bool keep_alive = false;  // another request may follow
  bool handled = false;     // a route's handler answers
  bool work = false;        // counted in ConnectionHost::running_work
  bool begun = false;       // the head is written
  bool stream = false;
  bool event_stream = false;
  bool complete = false;  // nothing will be added
  int status = 0;
  uint64_t body_bytes = 0;
  int64_t tokens = 0;
};

}  // namespace fathom
