// AddedTokens: the tokens that are cut out of a text before anything else happens to it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/status.h"

namespace fathom {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  std::string pattern;  // what is looked for: the content, normalized if `normalized` says so
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;
  bool special = false;
  // Looks like a mark-up token: user text that contains it must stay text.
  bool is_control() const;
};

Result<std::vector<AddedToken>> read_added_tokens(const nlohmann::json& root);

// Finds tokens in a text: at each place the longest, from left to right. Immutable.
class TokenMatcher {
 public:
  struct Piece {
    size_t begin;
    size_t end;
    int32_t id;  // -1: text between tokens
  };

  // The tokens must outlive the matcher. Refuses two tokens with one pattern.
  static Result<TokenMatcher> build(const std::vector<const AddedToken*>& tokens);
  // Appends pieces that cover the valid UTF-8 `text`.
  void split(std::string_view text, std::vector<Piece>& pieces) const;
  bool empty() const { return nodes_.size() <= 1; }

 private:
  struct Node {
    int32_t first_child = -1;
    int32_t sibling = -1;
    int32_t token = -1;  // index into tokens_
    unsigned char byte = 0;
  };
  int32_t child(int32_t node, unsigned char byte) const;
  // The longest token at the start of `text`, as an index into tokens_, or -1.
  int32_t longest(std::string_view text) const;

  std::vector<const AddedToken*> tokens_;
  std::vector<Node> nodes_;
  std::vector<int32_t> roots_;  // [byte] child of the root, -1 if none
};

}  // namespace fathom
