// Error bodies in the form that the client of an endpoint expects.
#pragma once

#include <string>
#include <string_view>

#include "http/exchange.h"

namespace fathom {

struct HttpError {
  int status = 500;
  std::string message;  // a complete sentence
  std::string code;     // "invalid_api_key", ...; "" = null
  std::string param;    // the field at fault; "" = null
};

// "error"."type" of a status in the two forms.
const char* openai_error_type(int status);
const char* anthropic_error_type(int status);

// Anthropic's form {"type": "error", "error": {"type", "message"}, "request_id"} below
// /v1/messages, with the header request-id; OpenAI's {"error": {"message", "type", "param",
// "code"}} elsewhere.
HttpResponse error_response(const HttpError& error, std::string_view path,
                            std::string_view request_id);

// The terminal event of a stream that the server must cut, in the same forms or that of
// /v1/responses.
std::string error_event(const HttpError& error, std::string_view path, std::string_view request_id);

}  // namespace fathom
