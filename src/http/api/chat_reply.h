// Answers of /v1/chat/completions, whole and streamed.
#pragma once

#include <memory>
#include <vector>

#include "http/api/chat_output.h"
#include "http/api/reply.h"
#include "http/api/reply_parts.h"

namespace fathom::api {

struct ChatReplyOptions {
  GenerationParams params;
  ChatFormat format;
  TokenNames names;
  std::vector<int32_t> prompt;
  std::string request_id;
};

std::unique_ptr<Reply> make_chat_reply(ChatReplyOptions options);  // whole or streamed

}  // namespace fathom::api
