// Special tokens of the template and look-alikes of the user.
#include "engine/special_text.h"

#include <algorithm>

namespace fathom {

namespace {

using Json = nlohmann::ordered_json;

// Calls fn(string) for every string value, depth first, until it returns true.
template <typename Value, typename Fn>
bool any_string(Value& value, const Fn& fn) {
  std::vector<Value*> open{&value};
  while (!open.empty()) {
    Value* current = open.back();
    open.pop_back();
    if (current->is_string()) {
      if (fn(*current)) return true;
    } else if (current->is_structured()) {
      for (auto& element : *current) open.push_back(&element);
    }
  }
  return false;
}

size_t first_character_bytes(std::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) ++bytes;
  return bytes;
}

}  // namespace

SpecialText::SpecialText(const Tokenizer& tokenizer) : tokenizer_(&tokenizer), nodes_(1) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_special(id)) continue;
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

bool SpecialText::found_in(const Json& value) const {
  return any_string(value, [this](const Json& string) {
    const std::string& text = string.get_ref<const std::string&>();
    for (size_t i = 0; i < text.size(); ++i) {
      if (match(text, i).first >= 0) return true;
    }
    return false;
  });
}

// Puts the mark behind the first character of every special token, overlapping ones included.
std::string SpecialText::marked(std::string_view text, std::string_view mark) const {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = first_character_bytes(text.substr(i));
    out += text.substr(i, bytes);
    const size_t length = match(text, i).second;
    if (length > bytes) out += mark;
    i += bytes;
  }
  return out;
}

void SpecialText::mark_all(Json* value, std::string_view mark) const {
  any_string(*value, [&](Json& string) {
    string = marked(string.get_ref<const std::string&>(), mark);
    return false;
  });
}

Result<std::vector<int32_t>> SpecialText::encode(const ChatTemplate& chat_template,
                                                 const Conversation& conversation) const {
  if (!found_in(conversation.messages) && !found_in(conversation.tools) &&
      !found_in(conversation.kwargs)) {
    FATHOM_ASSIGN(const std::string text, chat_template.render(conversation));
    return tokenizer_->encode(text, {.add_special_tokens = false, .parse_special = true});
  }
  // U+FDD0 to U+FDEF are never characters; the first that the conversation does not contain.
  const std::string all =
      conversation.messages.dump() + conversation.tools.dump() + conversation.kwargs.dump();
  std::string mark = "\xEF\xB7\x90";
  while (all.find(mark) != std::string::npos) {
    if (static_cast<unsigned char>(mark[2]) == 0xAF) {
      return error(Code::kInvalidArgument,
                   "The conversation contains special tokens as text and every one of the "
                   "noncharacters U+FDD0 to U+FDEF; remove one of these.");
    }
    ++mark[2];
  }
  Conversation protected_copy = conversation;
  mark_all(&protected_copy.messages, mark);
  mark_all(&protected_copy.tools, mark);
  mark_all(&protected_copy.kwargs, mark);
  FATHOM_ASSIGN(const std::string text, chat_template.render(protected_copy));
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
