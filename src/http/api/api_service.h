// ApiService: the OpenAI- and Anthropic-compatible routes over an engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "engine/engine.h"
#include "http/exchange.h"
#include "http/service_metrics.h"

namespace fathom {

// Receives one line of JSON for each answered request (docs/api.md, "Request log"). Any thread.
using RequestLogSink = std::function<void(std::string_view line)>;
// Appends lines to a file, each written whole.
Result<RequestLogSink> open_request_log(const std::string& path);

struct ApiOptions {
  std::vector<std::string> served_model_names;  // the first is the default; none: engine.name()
  // Template variables of every chat; the request's chat_template_kwargs win over them.
  nlohmann::ordered_json chat_template_kwargs = nlohmann::ordered_json::object();
  std::optional<bool> thinking;  // for templates that know the variable, where a request is silent
  std::string version = "0";     // of the server, for /openapi.json
  double request_timeout_seconds = 0;  // 0 = none
  RequestLogSink request_log;          // empty: nothing is logged
  std::function<int64_t()> unix_time;  // of "created"; empty: the system's clock
};

// Immutable after construction; the engine and the metrics must outlive it. The handlers of its
// routes hold a share of what they need, so the service itself may go before them.
class ApiService {
 public:
  ApiService(Engine& engine, ApiOptions options, ServiceMetrics& metrics);
  ~ApiService();

  std::vector<Route> routes() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace fathom
