// Answers of /v1/completions, whole and streamed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "http/api/reply.h"
#include "http/api/reply_parts.h"

namespace fathom::api {

struct CompletionPrompt {
  std::vector<int32_t> ids;
  std::string text;  // as echo shows it
};

struct CompletionReplyOptions {
  GenerationParams params;
  TokenNames names;
  std::vector<CompletionPrompt> prompts;  // choice i belongs to prompt i / n
};

std::unique_ptr<Reply> make_completion_reply(CompletionReplyOptions options);  // whole or streamed

}  // namespace fathom::api
