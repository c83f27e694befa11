// OpenAI's /v1/responses, without state: its bodies as ChatCalls, its answers.
#pragma once

#include <memory>

#include "http/api/chat_call.h"
#include "http/api/reply.h"
#include "http/api/reply_parts.h"

namespace fathom::api {

const Schema& responses_body();
ApiResult<Job> make_responses_job(const Service& service, const HttpRequest& request,
                                  const Json& body);

struct ResponsesReplyOptions {
  bool stream = false;
  bool logprobs = false;
  ChatOutput::Options output;
  TokenNames names;
  int64_t prompt_tokens = 0;
  Json echoed;  // the request's settings, which the response object repeats
};
std::unique_ptr<Reply> make_responses_reply(ResponsesReplyOptions options);

}  // namespace fathom::api
