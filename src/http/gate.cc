// Lets requests in or answers them at once.
#include "http/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "http/errors.h"

namespace fathom {
namespace {

constexpr const char* kRetryAfterSeconds = "5";

HttpResponse refuse(const HttpRequest& request, HttpError error) {
  return error_response(error, request.path, request.id);
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// "application/json", with or without parameters, and "application/...+json".
bool is_json(std::string_view content_type) {
  std::string media = lower(std::string(content_type.substr(0, content_type.find(';'))));
  media.erase(media.find_last_not_of(" \t") + 1);
  if (media == "application/json") return true;
  return media.rfind("application/", 0) == 0 && media.size() > 5 &&
         media.compare(media.size() - 5, 5, "+json") == 0;
}

std::string_view presented_key(const HttpRequest& request) {
  const std::string_view authorization = request.header("authorization");
  constexpr std::string_view kBearer = "bearer ";
  if (authorization.size() > kBearer.size() &&
      lower(std::string(authorization.substr(0, kBearer.size()))) == kBearer) {
    std::string_view key = authorization.substr(kBearer.size());
    while (!key.empty() && key.front() == ' ') key.remove_prefix(1);
    return key;
  }
  return request.header("x-api-key");
}

}  // namespace

std::string request_id(std::string_view from_client) {
  const auto safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == ':';
  };
  if (!from_client.empty() && from_client.size() <= 128 &&
      std::all_of(from_client.begin(), from_client.end(), safe)) {
    return std::string(from_client);
  }
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("req_{:016x}{:016x}", random(), random());
}

void Gate::set_routes(std::vector<Route> routes) {
  std::map<std::string, Methods> table;
  for (Route& route : routes) {
    auto shared = std::make_shared<const Route>(std::move(route));
    table[shared->path][shared->method] = shared;
  }
  const std::lock_guard lock(mutex_);
  routes_ = std::move(table);
}

Gate::Methods Gate::methods_of(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = routes_.find(path);
  return found == routes_.end() ? Methods() : found->second;
}

std::string Gate::allowed_origin(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return "";
  for (const std::string& allowed : options_.cors_origins) {
    if (allowed == "*") return "*";
    if (allowed == origin) return std::string(origin);
  }
  return "";
}

HttpResponse Gate::options_answer(const HttpRequest& request, const Methods& methods) const {
  std::string allow = "OPTIONS";
  for (const auto& [method, route] : methods) {
    allow += ", " + method;
    if (method == "GET") allow += ", HEAD";
  }
  HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("Allow", allow);
  if (request.header("access-control-request-method").empty()) return response;
  if (allowed_origin(request).empty()) return response;  // the browser then refuses the request
  response.headers.emplace_back("Access-Control-Allow-Methods", allow);
  const std::string_view wanted = request.header("access-control-request-headers");
  if (!wanted.empty()) {
    response.headers.emplace_back("Access-Control-Allow-Headers", std::string(wanted));
  }
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

std::optional<HttpResponse> Gate::check_key(HttpRequest& request) const {
  if (!keys_.required()) return std::nullopt;
  const std::string_view key = presented_key(request);
  const std::optional<std::string> name = keys_.find(key);
  if (name) {
    request.key = *name;
    return std::nullopt;
  }
  HttpResponse response = refuse(
      request, {401,
                key.empty() ? "This server needs an API key: send it as \"Authorization: Bearer "
                              "KEY\" or \"x-api-key: KEY\"."
                            : "The API key is not one of this server's keys.",
                "invalid_api_key", ""});
  response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"fathom\"");
  return response;
}

std::optional<HttpResponse> Gate::check_phase(const HttpRequest& request) const {
  const ServerPhase phase = phase_;
  if (phase == ServerPhase::kReady) return std::nullopt;
  HttpResponse response = refuse(
      request,
      phase == ServerPhase::kLoading
          ? HttpError{503, "The model is still being loaded; try again soon.", "model_loading", ""}
          : HttpError{503, "The server is shutting down and takes no new requests.",
                      "shutting_down", ""});
  response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
  return response;
}

std::optional<HttpResponse> Gate::check_body(const HttpRequest& request,
                                             const BodyFacts& body) const {
  if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
  if (!body.content_length && !body.chunked) {
    return refuse(request, {411,
                            "The request has no body: send JSON with a Content-Length or with "
                            "Transfer-Encoding: chunked.",
                            "length_required", ""});
  }
  // Also keeps web pages of other origins out: these cannot send JSON without being asked first.
  if (!is_json(request.header("content-type"))) {
    return refuse(request, {415,
                            fmt::format("The body must be JSON, announced by the header "
                                        "\"Content-Type: application/json\" (it says \"{}\").",
                                        request.header("content-type")),
                            "unsupported_media_type", ""});
  }
  const std::string_view encoding = request.header("content-encoding");
  if (!encoding.empty() && encoding != "identity") {
    return refuse(request, {415, "The body must not be compressed (Content-Encoding).",
                            "unsupported_content_encoding", ""});
  }
  return std::nullopt;
}

Admission Gate::admit(HttpRequest& request, const BodyFacts& body) {
  Admission admission;
  const Methods methods = methods_of(request.path);
  if (!methods.empty()) admission.route_label = request.path;
  if (request.method == "OPTIONS") {
    if (request.path != "*" && methods.empty()) {
      admission.refusal = refuse(request, {404, "There is nothing at this path.", "not_found", ""});
    } else {
      admission.refusal = options_answer(request, methods);
    }
    return admission;
  }
  if (methods.empty()) {
    admission.refusal = phase_ == ServerPhase::kLoading ? check_phase(request) : std::nullopt;
    if (!admission.refusal) {
      admission.refusal = refuse(
          request, {404, fmt::format("There is nothing at {}.", request.path), "unknown_url", ""});
    }
    return admission;
  }
  auto chosen = methods.find(request.method);
  if (chosen == methods.end() && request.method == "HEAD") chosen = methods.find("GET");
  if (chosen == methods.end()) {
    const HttpResponse allow = options_answer(request, methods);
    admission.refusal = refuse(request, {405,
                                         fmt::format("{} takes {}, not {}.", request.path,
                                                     allow.headers.front().second, request.method),
                                         "method_not_allowed", ""});
    admission.refusal->headers.push_back(allow.headers.front());
    return admission;
  }
  const Route& route = *chosen->second;
  if (route.needs_key) admission.refusal = check_key(request);
  if (!admission.refusal && route.is_work) admission.refusal = check_phase(request);
  if (!admission.refusal) admission.refusal = check_body(request, body);
  if (!admission.refusal && body.content_length.value_or(0) > options_.max_body_bytes) {
    admission.refusal =
        refuse(request, {413,
                         fmt::format("The body has {} bytes; at most {} are allowed "
                                     "(--max-body-size).",
                                     *body.content_length, options_.max_body_bytes),
                         "body_too_large", ""});
  }
  if (!admission.refusal && route.is_work && !request.key.empty()) {
    ApiKeys::Grant grant = keys_.admit(request.key);
    if (!grant.refusal.empty()) {
      admission.refusal = refuse(request, {429, grant.refusal, "rate_limit_exceeded", ""});
      admission.refusal->headers.emplace_back(
          "Retry-After", fmt::format("{:.0f}", std::max(1.0, std::ceil(grant.retry_after))));
    }
    admission.slot = std::move(grant.slot);
  }
  if (!admission.refusal) admission.route = chosen->second;
  return admission;
}

}  // namespace fathom
