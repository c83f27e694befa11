// Prompts of every kind to token ids.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/status.h"
#include "engine/engine.h"
#include "engine/special_text.h"

namespace fathom {

// Immutable; safe from several threads. Tokenizer and template may be nullptr and must outlive it.
class PromptEncoder {
 public:
  PromptEncoder(const Tokenizer* tokenizer, const ChatTemplate* chat_template, int64_t vocab_size);

  Result<std::vector<int32_t>> encode(const Prompt& prompt) const;

 private:
  Result<std::vector<int32_t>> encode_text(const TextPrompt& prompt) const;
  Result<std::vector<int32_t>> encode_chat(const ChatPrompt& prompt) const;
  Status check_ids(const std::vector<int32_t>& ids) const;

  const Tokenizer* tokenizer_;
  const ChatTemplate* chat_template_;
  int64_t vocab_size_;  // ids must be below
  std::optional<SpecialText> special_text_;
};

// The conversation of a chat prompt. add_generation_prompt is true unless the prompt says otherwise
// or continues its last message.
Result<Conversation> parse_conversation(const ChatPrompt& prompt);

}  // namespace fathom
