// Anthropic's /v1/messages: its bodies as ChatCalls, its answers.
#pragma once

#include <memory>
#include <string>

#include "http/api/chat_call.h"
#include "http/api/reply.h"

namespace fathom::api {

const Schema& messages_body();
const Schema& count_tokens_body();

ApiResult<Job> make_messages_job(const Service& service, const HttpRequest& request,
                                 const Json& body);
ApiResult<Json> count_tokens(const Service& service, const Json& body);

struct MessagesReplyOptions {
  bool stream = false;
  ChatOutput::Options output;
  int64_t prompt_tokens = 0;
};
std::unique_ptr<Reply> make_messages_reply(MessagesReplyOptions options);

}  // namespace fathom::api
