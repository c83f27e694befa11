// Exchange: one HTTP request and the way to answer it; what routes see of the server.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom {

struct HttpRequest {
  std::string id;  // X-Request-Id of the client if it is usable, else made here; in every log line
  std::string method;  // "GET", "POST", ...
  std::string path;    // decoded, without the query
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string client;  // address of the peer
  std::string key;     // name of the API key that was accepted; "" = none asked for

  std::string_view header(const std::string& lower_case_name) const {
    const auto found = headers.find(lower_case_name);
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // further ones
  std::string body;                                          // ignored by begin_stream()
};

// The methods but post() and cancelled() are called on the connection's thread: inside a handler,
// inside on_closed()'s callback and inside work that was handed to post(). Exactly one of respond()
// and begin_stream() ... end_stream() answers an exchange. After the connection is gone all of them
// but charge() do nothing. A handler may keep the shared pointer as long as it needs it; dropping
// the last one without an answer gives the client a 500.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;

  // Runs `work` soon on the connection's thread; never inside the call. Any thread, also after the
  // connection is gone.
  virtual void post(std::function<void()> work) = 0;

  virtual void respond(HttpResponse response) = 0;
  virtual void begin_stream(HttpResponse head) = 0;  // then chunks, as they come
  virtual void send(std::string chunk) = 0;          // a reader that falls far behind is closed
  virtual void end_stream() = 0;

  // `callback` runs once if the connection ends (client gone, too slow, server stopped hard) before
  // the answer is complete; at once (through post) if it is gone already.
  virtual void on_closed(std::function<void()> callback) = 0;
  // Counts prompt and completion tokens against the limits of the request's API key, as they are
  // computed; also after the connection is gone.
  virtual void charge(int64_t tokens) = 0;
};

using Handler = std::function<void(std::shared_ptr<Exchange>)>;

struct Route {
  std::string method;
  std::string path;  // exact
  Handler handler;
  bool needs_key = true;  // false: answered without an API key (/health, /ready, the page)
  bool is_work = false;   // true: refused with 503 while draining
};

}  // namespace fathom
