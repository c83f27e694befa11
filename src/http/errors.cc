// Writes error bodies.
#include "http/errors.h"

#include <nlohmann/json.hpp>

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

bool below(std::string_view path, std::string_view prefix) {
  return path.substr(0, prefix.size()) == prefix;
}

bool anthropic(std::string_view path) {
  return below(path, "/v1/messages");
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json error_json(const HttpError& error, std::string_view path, std::string_view request_id) {
  if (anthropic(path)) {
    return {{"type", "error"},
            {"error", {{"type", anthropic_error_type(error.status)}, {"message", error.message}}},
            {"request_id", std::string(request_id)}};
  }
  return {{"error",
           {{"message", error.message},
            {"type", openai_error_type(error.status)},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

const char* openai_error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

const char* anthropic_error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

HttpResponse error_response(const HttpError& error, std::string_view path,
                            std::string_view request_id) {
  HttpResponse response;
  response.status = error.status;
  response.body = dump(error_json(error, path, request_id));
  if (anthropic(path)) response.headers.emplace_back("request-id", std::string(request_id));
  return response;
}

std::string error_event(const HttpError& error, std::string_view path,
                        std::string_view request_id) {
  if (below(path, "/v1/responses")) {
    const Json event = {{"type", "error"},
                        {"code", text_or_null(error.code)},
                        {"message", error.message},
                        {"param", text_or_null(error.param)}};
    return "event: error\ndata: " + dump(event) + "\n\n";
  }
  const std::string data = "data: " + dump(error_json(error, path, request_id)) + "\n\n";
  return anthropic(path) ? "event: error\n" + data : data;
}

}  // namespace fathom
