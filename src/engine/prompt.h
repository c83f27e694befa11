// Prompts of every kind to token ids.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "engine/engine.h"

namespace fathom {

// What a prompt is encoded with; either may be nullptr.
struct PromptEncoder {
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;
  int64_t vocab_size = 0;  // token ids given directly must be below

  Result<std::vector<int32_t>> encode(const Prompt& prompt) const;

 private:
  Result<std::vector<int32_t>> encode_text(const TextPrompt& prompt) const;
  Result<std::vector<int32_t>> encode_chat(const ChatPrompt& prompt) const;
};

}  // namespace fathom
