// SpecialText: finds the texts of control tokens, and keeps those that a user wrote apart from the
// template's own.
//
// A rendered conversation is one string in which "<｜User｜>" from the template must become a
// control token and the same characters from a message must not. So before rendering a mark is put
// inside each such text in the conversation, and after rendering only unmarked ones count. The mark
// is a Unicode noncharacter that occurs nowhere in the conversation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace fathom {

// Immutable; safe from several threads. The tokenizer must outlive it.
class SpecialText {
 public:
  explicit SpecialText(const Tokenizer& tokenizer);

  // The longest control token whose text begins at `at`: its id and bytes, or {-1, 0}.
  std::pair<int32_t, size_t> match(std::string_view text, size_t at) const;
  // Encodes what the template makes of the conversation. Control tokens that the template wrote are
  // such; what looks like them in messages, tools and variables is ordinary text.
  Result<std::vector<int32_t>> encode(const ChatTemplate& chat_template,
                                      const Conversation& conversation) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, int>> next;
    int32_t id = -1;  // of the token that ends here
  };
  int child(int node, unsigned char byte) const;
  // Puts the mark into every control token of a text; false if there was none.
  bool mark_text(std::string* text, std::string_view mark, bool by_assistant) const;
  bool mark_value(nlohmann::ordered_json* value, std::string_view mark, bool by_assistant) const;
  bool mark_conversation(Conversation* conversation, std::string_view mark) const;
  Result<std::vector<int32_t>> encode_marked(std::string_view text, std::string_view mark) const;

  const Tokenizer* tokenizer_;
  std::vector<int32_t> thinking_;  // <think> and </think>, where the tokenizer has them
  std::vector<Node> nodes_;        // a trie; 0 is the root
};

}  // namespace fathom
