// Prompts of every kind to token ids.
#include "engine/prompt.h"

#include <fmt/format.h>

#include "core/json_shape.h"

namespace fathom {

namespace {

using Json = nlohmann::ordered_json;

Status no_tokenizer() {
  return Status(Code::kInvalidArgument,
                "The model's folder has no tokenizer.json; give the prompt as token ids.");
}

Result<Json> parse(const std::string& text, const char* name, Json::value_t type,
                   const char* expected) {
  const Status shape = check_json_shape(text);
  if (!shape.ok()) return error(shape.with_context(name));
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.type() != type) {
    return error(Code::kInvalidArgument, fmt::format("{} must be {}.", name, expected));
  }
  return value;
}

}  // namespace

Result<Conversation> parse_conversation(const ChatPrompt& prompt) {
  Conversation conversation;
  FATHOM_ASSIGN(conversation.messages, parse(prompt.messages, "messages", Json::value_t::array,
                                             "a JSON array of objects with a role"));
  if (!prompt.tools.empty() && prompt.tools != "null") {
    FATHOM_ASSIGN(conversation.tools,
                  parse(prompt.tools, "tools", Json::value_t::array, "a JSON array of objects"));
  }
  if (!prompt.template_kwargs.empty() && prompt.template_kwargs != "null") {
    FATHOM_ASSIGN(conversation.kwargs, parse(prompt.template_kwargs, "template_kwargs",
                                             Json::value_t::object, "a JSON object"));
  }
  if (!conversation.kwargs.contains("add_generation_prompt")) {
    const auto continued = conversation.kwargs.find("continue_final_message");
    const bool continues =
        continued != conversation.kwargs.end() && !continued->is_null() && *continued != false;
    conversation.kwargs["add_generation_prompt"] = !continues;
  }
  return conversation;
}

PromptEncoder::PromptEncoder(const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                             int64_t vocab_size)
    : tokenizer_(tokenizer), chat_template_(chat_template), vocab_size_(vocab_size) {
  if (tokenizer != nullptr) special_text_.emplace(*tokenizer);
}

Result<std::vector<int32_t>> PromptEncoder::encode(const Prompt& prompt) const {
  Result<std::vector<int32_t>> ids = std::vector<int32_t>();
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) {
    ids = encode_text(*text);
  } else if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) {
    ids = encode_chat(*chat);
  } else {
    ids = std::get<TokenPrompt>(prompt);
  }
  if (ids) FATHOM_TRY(check_ids(*ids));
  return ids;
}

Status PromptEncoder::check_ids(const std::vector<int32_t>& ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size_) {
      return Status(Code::kInvalidArgument,
                    fmt::format("Prompt token {} is {}; the model's ids are 0 to {}.", i, ids[i],
                                vocab_size_ - 1));
    }
  }
  return Status();
}

Result<std::vector<int32_t>> PromptEncoder::encode_text(const TextPrompt& prompt) const {
  if (tokenizer_ == nullptr) return error(no_tokenizer());
  if (prompt.add_special_tokens)
    return tokenizer_->encode_prompt(prompt.text, prompt.parse_special);
  return tokenizer_->encode(prompt.text, {false, prompt.parse_special});
}

Result<std::vector<int32_t>> PromptEncoder::encode_chat(const ChatPrompt& prompt) const {
  if (tokenizer_ == nullptr) return error(no_tokenizer());
  if (chat_template_ == nullptr) {
    return error(Code::kInvalidArgument,
                 "The model's folder has no chat template; give one (chat_template) or use a text "
                 "prompt.");
  }
  FATHOM_ASSIGN(const Conversation conversation, parse_conversation(prompt));
  return special_text_->encode(*chat_template_, conversation);
}

}  // namespace fathom
