// Failures to HTTP answers.
#include "http/api/api_error.h"

#include <utility>

#include "http/errors.h"

namespace fathom::api {

namespace {

constexpr const char* kRetryAfterSeconds = "1";

int http_status(Code code) {
  switch (code) {
    case Code::kOk:
      return 200;
    case Code::kInvalidArgument:
    case Code::kUnsupported:
    case Code::kOutOfMemory:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kUnavailable:
      return 429;
    case Code::kCancelled:
      return 503;
    case Code::kTimeout:
      return 504;
    case Code::kCorrupt:
    case Code::kInternal:
      return 500;
  }
  return 500;
}

}  // namespace

ApiError bad_request(std::string param, std::string message) {
  return {400, std::move(message), std::move(param), ""};
}

ApiError from_status(const Status& status, const std::string& param) {
  ApiError error{http_status(status.code()), status.message(), param, ""};
  if (status.code() == Code::kUnavailable) error.code = "overloaded";
  if (status.code() == Code::kTimeout) error.code = "timeout";
  if (status.code() == Code::kCancelled) error.code = "cancelled";
  return error;
}

Json error_body(const ApiError& error, Dialect dialect) {
  if (dialect == Dialect::kAnthropic) {
    return {{"type", "error"},
            {"error", {{"type", anthropic_error_type(error.status)}, {"message", error.message}}}};
  }
  Json fields = {{"message", error.message}, {"type", openai_error_type(error.status)}};
  fields["param"] = error.param.empty() ? Json(nullptr) : Json(error.param);
  fields["code"] = error.code.empty() ? Json(nullptr) : Json(error.code);
  return {{"error", std::move(fields)}};
}

HttpResponse error_response(const ApiError& error, Dialect dialect) {
  HttpResponse response;
  response.status = error.status;
  response.body = dump(error_body(error, dialect));
  if (error.status == 429 || error.status == 503) {
    response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
  }
  return response;
}

}  // namespace fathom::api
