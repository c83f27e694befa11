// ServiceMetrics: what the API layer reports about requests; the server exports it on /metrics.
#pragma once

#include <string>

#include "stream/token_stream.h"

namespace fathom {

// Any thread. `endpoint` is a route's path ("/v1/chat/completions"): a fixed, small set.
class ServiceMetrics {
 public:
  virtual ~ServiceMetrics() = default;
  virtual void request_started(const std::string& endpoint) = 0;
  virtual void first_token(const std::string& endpoint, double seconds_since_submit) = 0;
  virtual void inter_token(const std::string& endpoint, double seconds) = 0;
  // `terminal`: the request's terminal event (usage, times, reason).
  virtual void request_finished(const std::string& endpoint, const StreamEvent& terminal) = 0;
};

}  // namespace fathom
