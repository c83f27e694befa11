// Prompts of every kind to token ids.
#include "engine/prompt.h"

#include <fmt/format.h>

#include <string_view>

namespace fathom {

Result<std::vector<int32_t>> PromptEncoder::encode(const Prompt& prompt) const {
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) return encode_text(*text);
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) return encode_chat(*chat);
  const TokenPrompt& ids = std::get<TokenPrompt>(prompt);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      return error(Code::kInvalidArgument,
                   fmt::format("Prompt token {} is {}; the model's ids are 0 to {}.", i, ids[i],
                               vocab_size - 1));
    }
  }
  return ids;
}

Result<std::vector<int32_t>> PromptEncoder::encode_text(const TextPrompt& prompt) const {
  if (tokenizer == nullptr) {
    return error(Code::kInvalidArgument,
                 "The model's folder has no tokenizer.json; give the prompt as token ids.");
  }
  EncodeOptions options;
  options.add_special_tokens = prompt.add_special_tokens;
  options.parse_special = prompt.parse_special;
  FATHOM_ASSIGN(std::vector<int32_t> ids, tokenizer->encode(prompt.text, options));
  // A text that brings its own BOS keeps just that one.
  const std::optional<int32_t> bos = tokenizer->bos_id();
  if (prompt.add_special_tokens && tokenizer->adds_bos() && bos && ids.size() >= 2 &&
      ids[0] == *bos && ids[1] == *bos &&
      std::string_view(prompt.text).starts_with(tokenizer->token_bytes(*bos))) {
    ids.erase(ids.begin());
  }
  return ids;
}

Result<std::vector<int32_t>> PromptEncoder::encode_chat(const ChatPrompt&) const {
  return error(Code::kUnsupported, "The model's folder has no chat template.");
}

}  // namespace fathom
