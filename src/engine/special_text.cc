// Special tokens of the template and look-alikes of the user.
#include "engine/special_text.h"

#include <algorithm>
#include <utility>

namespace fathom {

namespace {

using Json = nlohmann::ordered_json;

// U+FDD0 to U+FDEF are never characters: the first that occurs nowhere in the conversation.
Result<std::string> unused_mark(const Conversation& conversation) {
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const std::string all =
      text(conversation.messages) + text(conversation.tools) + text(conversation.kwargs);
  std::string mark = "\xEF\xB7\x90";
  while (all.find(mark) != std::string::npos) {
    if (static_cast<unsigned char>(mark[2]) == 0xAF) {
      return error(Code::kInvalidArgument,
                   "The conversation contains every one of the noncharacters U+FDD0 to U+FDEF; "
                   "remove one of them.");
    }
    ++mark[2];
  }
  return mark;
}

size_t first_character_bytes(std::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) ++bytes;
  return bytes;
}

}  // namespace

SpecialText::SpecialText(const Tokenizer& tokenizer) : tokenizer_(&tokenizer), nodes_(1) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_control(id)) continue;
    const std::string_view text = tokenizer.token_bytes(id);
    if (text.empty()) continue;
    int node = 0;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      int next = child(node, byte);
      if (next < 0) {
        next = static_cast<int>(nodes_.size());
        nodes_[node].next.emplace_back(byte, next);
        nodes_.emplace_back();
      }
      node = next;
    }
    nodes_[node].id = id;
    if (text == "<think>" || text == "</think>") thinking_.push_back(id);
  }
}

int SpecialText::child(int node, unsigned char byte) const {
  for (const auto& [edge, next] : nodes_[node].next) {
    if (edge == byte) return next;
  }
  return -1;
}

std::pair<int32_t, size_t> SpecialText::match(std::string_view text, size_t at) const {
  std::pair<int32_t, size_t> longest{-1, 0};
  int node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    node = child(node, static_cast<unsigned char>(text[i]));
    if (node < 0) break;
    if (nodes_[node].id >= 0) longest = {nodes_[node].id, i + 1 - at};
  }
  return longest;
}

// The mark goes behind the first character of a token, so overlapping ones are broken as well.
bool SpecialText::mark_text(std::string* text, std::string_view mark, bool by_assistant) const {
  std::string out;
  bool found = false;
  for (size_t i = 0; i < text->size();) {
    const size_t bytes = first_character_bytes(std::string_view(*text).substr(i));
    out.append(*text, i, bytes);
    const auto [id, length] = match(*text, i);
    const bool allowed =
        by_assistant && std::find(thinking_.begin(), thinking_.end(), id) != thinking_.end();
    if (length > bytes && !allowed) {
      out += mark;
      found = true;
    }
    i += bytes;
  }
  if (found) *text = std::move(out);
  return found;
}

bool SpecialText::mark_value(Json* value, std::string_view mark, bool by_assistant) const {
  bool found = false;
  std::vector<Json*> open{value};
  while (!open.empty()) {
    Json* current = open.back();
    open.pop_back();
    if (current->is_string()) {
      found |= mark_text(&current->get_ref<std::string&>(), mark, by_assistant);
    } else if (current->is_structured()) {
      for (Json& element : *current) open.push_back(&element);
    }
  }
  return found;
}

bool SpecialText::mark_conversation(Conversation* conversation, std::string_view mark) const {
  bool found = mark_value(&conversation->tools, mark, false);
  found |= mark_value(&conversation->kwargs, mark, false);
  for (Json& message : conversation->messages) {
    const auto role = message.is_object() ? message.find("role") : message.end();
    const bool by_assistant = role != message.end() && *role == "assistant";
    found |= mark_value(&message, mark, by_assistant);
  }
  return found;
}

Result<std::vector<int32_t>> SpecialText::encode(const ChatTemplate& chat_template,
                                                 const Conversation& conversation) const {
  FATHOM_ASSIGN(const std::string mark, unused_mark(conversation));
  Conversation marked = conversation;
  const bool found = mark_conversation(&marked, mark);
  FATHOM_ASSIGN(const std::string text, chat_template.render(marked));
  if (!found) return tokenizer_->encode(text, {.add_special_tokens = false, .parse_special = true});
  return encode_marked(text, mark);
}

// The template's tokens split the text; what lies between is encoded as plain text.
Result<std::vector<int32_t>> SpecialText::encode_marked(std::string_view text,
                                                        std::string_view mark) const {
  std::vector<int32_t> ids;
  std::string plain;
  const auto flush = [&]() -> Status {
    FATHOM_ASSIGN_OR_STATUS(
        const std::vector<int32_t> piece,
        tokenizer_->encode(plain, {.add_special_tokens = false, .parse_special = false}));
    ids.insert(ids.end(), piece.begin(), piece.end());
    plain.clear();
    return Status();
  };
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i).starts_with(mark)) {
      i += mark.size();
      continue;
    }
    const auto [id, length] = match(text, i);
    if (id < 0) {
      plain += text[i++];
      continue;
    }
    FATHOM_TRY(flush());
    ids.push_back(id);
    i += length;
  }
  FATHOM_TRY(flush());
  return ids;
}

}  // namespace fathom
