// Gate: decides from a request's header alone whether it is let in, and to which route.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "http/api_keys.h"
#include "http/exchange.h"

namespace fathom {

enum class ServerPhase { kLoading, kReady, kDraining };

struct GateOptions {
  uint64_t max_body_bytes = 32ull << 20;
  std::vector<std::string> cors_origins;  // exact origins, or "*"
};

// What the gate looks at besides the request's fields.
struct BodyFacts {
  int version = 11;                        // 10 or 11
  std::optional<uint64_t> content_length;  // as announced
  bool chunked = false;
};

struct Admission {
  std::optional<HttpResponse> refusal;    // the whole answer: an error, or that of OPTIONS
  std::shared_ptr<const Route> route;     // without a refusal: whose handler answers
  std::string route_label = "unmatched";  // of metrics: the route's path
  std::shared_ptr<void> slot;             // of the key's concurrency limit
};

// Any thread. `keys` must outlive it.
class Gate {
 public:
  Gate(GateOptions options, ApiKeys& keys) : options_(std::move(options)), keys_(keys) {}

  void set_routes(std::vector<Route> routes);  // replaces all
  void set_phase(ServerPhase phase) { phase_ = phase; }
  ServerPhase phase() const { return phase_; }
  ApiKeys& keys() { return keys_; }
  const GateOptions& options() const { return options_; }

  // `request`: with path, query and id; `key` is filled in.
  Admission admit(HttpRequest& request, const BodyFacts& body);
  // The value of Access-Control-Allow-Origin for this request; "" = none.
  std::string allowed_origin(const HttpRequest& request) const;

 private:
  using Methods = std::map<std::string, std::shared_ptr<const Route>>;  // by method
  Methods methods_of(const std::string& path) const;
  HttpResponse options_answer(const HttpRequest& request, const Methods& methods) const;
  std::optional<HttpResponse> check_key(HttpRequest& request) const;
  std::optional<HttpResponse> check_phase(const HttpRequest& request) const;
  std::optional<HttpResponse> check_body(const HttpRequest& request, const BodyFacts& body) const;

  GateOptions options_;
  ApiKeys& keys_;
  std::atomic<ServerPhase> phase_{ServerPhase::kLoading};
  mutable std::mutex mutex_;
  std::map<std::string, Methods> routes_;  // by path
};

// The client's X-Request-Id if it is 1 to 128 letters, digits or -_.:, else a new random one.
std::string request_id(std::string_view from_client);

}  // namespace fathom
