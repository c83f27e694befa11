// ApiError: what a client is told when a request fails, in OpenAI's and Anthropic's forms.
#pragma once

#include <string>

#include "core/status.h"
#include "http/api/json.h"
#include "http/exchange.h"

namespace fathom::api {

struct ApiError {
  int status = 400;
  std::string message;  // a complete sentence
  std::string param;    // path of the parameter, "messages[2].content"; "" = none
  std::string code;     // "model_not_found", "context_length_exceeded", ...; "" = none
};

ApiError bad_request(std::string param, std::string message);
// What the engine said, with the HTTP status that fits its code.
ApiError from_status(const Status& status, const std::string& param = "");

enum class Dialect { kOpenAi, kAnthropic };
Json error_body(const ApiError& error, Dialect dialect);
// The whole answer; 429 and 503 say when to come back (Retry-After).
HttpResponse error_response(const ApiError& error, Dialect dialect);

template <typename T>
using ApiResult = tl::expected<T, ApiError>;

inline tl::unexpected<ApiError> fail(ApiError error) {
  return tl::unexpected<ApiError>(std::move(error));
}
inline tl::unexpected<ApiError> fail(std::string param, std::string message) {
  return fail(bad_request(std::move(param), std::move(message)));
}

}  // namespace fathom::api

// Returns from a function of type ApiResult<T> if `expr`, an ApiResult<void>, failed.
#define FATHOM_API_TRY(expr)                                                         \
  do {                                                                               \
    if (auto outcome_ = (expr); !outcome_)                                           \
      return ::tl::unexpected<::fathom::api::ApiError>(std::move(outcome_).error()); \
  } while (false)

// Declares `lhs` from an ApiResult<T>, or returns its error.
#define FATHOM_API_ASSIGN(lhs, expr) \
  FATHOM_API_ASSIGN_IMPL(FATHOM_CONCAT(api_result_, __LINE__), lhs, expr)
#define FATHOM_API_ASSIGN_IMPL(tmp, lhs, expr)                                        \
  auto tmp = (expr);                                                                  \
  if (!tmp) return ::tl::unexpected<::fathom::api::ApiError>(std::move(tmp).error()); \
  lhs = std::move(*tmp)
