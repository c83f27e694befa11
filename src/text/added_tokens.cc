// Reads and finds added tokens, with the library's rules for the white space and words around them.
#include "text/added_tokens.h"

#include <algorithm>

#include "text/code_set.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace fathom {
namespace {

// A place in a text costs at most this many steps, whatever the tokens are.
constexpr size_t kMaxTokenBytes = 1024;

uint32_t first_code(std::string_view text) {
  return text.empty() ? 0 : decode_utf8(text).code;
}

size_t last_size(std::string_view text) {
  size_t size = 1;
  while (size < text.size() &&
         (static_cast<unsigned char>(text[text.size() - size]) & 0xC0) == 0x80)
    ++size;
  return size;
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && rust_word_set().contains(first_code(text));
}

bool ends_with_word(std::string_view text) {
  return !text.empty() &&
         rust_word_set().contains(first_code(text.substr(text.size() - last_size(text))));
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = decode_utf8(text.substr(at));
    if (!white_space_set().contains(step.code)) break;
    at += step.size;
  }
  return at;
}

// Where the white space at the end of text[from, to) begins.
size_t trailing_space_begin(std::string_view text, size_t from, size_t to) {
  while (to > from) {
    const size_t size = last_size(text.substr(0, to));
    if (!white_space_set().contains(first_code(text.substr(to - size)))) break;
    to -= size;
  }
  return to;
}

Result<AddedToken> read_token(const nlohmann::json& entry, const std::string& where) {
  if (!entry.is_object()) return error(Code::kCorrupt, where + " is not an object");
  AddedToken token;
  const auto id = entry.find("id");
  if (id == entry.end() || !id->is_number_unsigned() || id->get<uint64_t>() > INT32_MAX) {
    return error(Code::kCorrupt, where + ".id is missing or is no token id");
  }
  token.id = static_cast<int32_t>(id->get<uint64_t>());
  FATHOM_ASSIGN(token.content, json_string(entry, "content", where));
  FATHOM_ASSIGN(token.single_word, json_bool(entry, "single_word", where));
  FATHOM_ASSIGN(token.lstrip, json_bool(entry, "lstrip", where));
  FATHOM_ASSIGN(token.rstrip, json_bool(entry, "rstrip", where));
  FATHOM_ASSIGN(token.normalized, json_bool(entry, "normalized", where));
  FATHOM_ASSIGN(token.special, json_bool(entry, "special", where));
  token.pattern = token.content;
  return token;
}

}  // namespace

bool AddedToken::is_control() const {
  if (special) return true;
  if (content.size() <= 4 && last_size(content) == content.size()) return false;  // one character
  for (const std::string_view mark : {"<", ">", "[", "]", "{", "}", "|", "\xEF\xBD\x9C"}) {
    if (content.find(mark) != content.npos) return true;  // the last is U+FF5C, as in <｜User｜>
  }
  return false;
}

Result<std::vector<AddedToken>> read_added_tokens(const nlohmann::json& root) {
  std::vector<AddedToken> tokens;
  const auto list = root.find("added_tokens");
  if (list == root.end() || list->is_null()) return tokens;
  if (!list->is_array()) return error(Code::kCorrupt, "added_tokens is not an array");
  std::unordered_map<std::string, size_t> by_content;
  std::unordered_map<int32_t, size_t> by_id;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string where = "added_tokens[" + std::to_string(i) + "]";
    FATHOM_ASSIGN(AddedToken token, read_token((*list)[i], where));
    if (token.content.empty()) continue;  // the library ignores them too
    if (token.content.size() > kMaxTokenBytes) {
      return error(Code::kCorrupt, where + ".content is longer than 1024 bytes");
    }
    if (!by_content.emplace(token.content, i).second) {
      return error(Code::kCorrupt, where + " repeats the token " + in_quotes(token.content));
    }
    if (!by_id.emplace(token.id, i).second) {
      return error(Code::kCorrupt, where + " repeats the id " + std::to_string(token.id));
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Result<TokenMatcher> TokenMatcher::build(const std::vector<const AddedToken*>& tokens) {
  TokenMatcher matcher;
  matcher.tokens_ = tokens;
  matcher.nodes_.emplace_back();
  matcher.roots_.assign(256, -1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    int32_t node = 0;
    for (const char c : tokens[i]->pattern) {
      const auto byte = static_cast<unsigned char>(c);
      int32_t next = node == 0 ? matcher.roots_[byte] : matcher.child(node, byte);
      if (next < 0) {
        next = static_cast<int32_t>(matcher.nodes_.size());
        matcher.nodes_.push_back(
            {-1, matcher.nodes_[static_cast<size_t>(node)].first_child, -1, byte});
        matcher.nodes_[static_cast<size_t>(node)].first_child = next;
        if (node == 0) matcher.roots_[byte] = next;
      }
      node = next;
    }
    int32_t& token = matcher.nodes_[static_cast<size_t>(node)].token;
    if (token >= 0) {
      return error(Code::kCorrupt,
                   "the added tokens " + in_quotes(tokens[static_cast<size_t>(token)]->content) +
                       " and " + in_quotes(tokens[i]->content) + " are equal once normalized");
    }
    token = static_cast<int32_t>(i);
  }
  return matcher;
}

int32_t TokenMatcher::child(int32_t node, unsigned char byte) const {
  int32_t at = nodes_[static_cast<size_t>(node)].first_child;
  while (at >= 0 && nodes_[static_cast<size_t>(at)].byte != byte)
    at = nodes_[static_cast<size_t>(at)].sibling;
  return at;
}

int32_t TokenMatcher::longest(std::string_view text) const {
  int32_t found = -1;
  int32_t node = roots_[static_cast<unsigned char>(text[0])];
  for (size_t i = 1; node >= 0; ++i) {
    if (nodes_[static_cast<size_t>(node)].token >= 0)
      found = nodes_[static_cast<size_t>(node)].token;
    if (i == text.size()) break;
    node = child(node, static_cast<unsigned char>(text[i]));
  }
  return found;
}

void TokenMatcher::split(std::string_view text, std::vector<Piece>& pieces) const {
  size_t done = 0;  // up to here the text is in pieces
  for (size_t at = 0; at < text.size();) {
    const int32_t found = longest(text.substr(at));
    if (found < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = *tokens_[static_cast<size_t>(found)];
    size_t begin = at;
    size_t end = at + token.pattern.size();
    at = end;
    const bool inside_word = token.single_word && (ends_with_word(text.substr(0, begin)) ||
                                                   starts_with_word(text.substr(end)));
    if (inside_word) continue;
    if (token.lstrip)
      begin = std::max(done, trailing_space_begin(text, std::min(done, begin), begin));
    if (token.rstrip) end += leading_space(text.substr(end));
    if (done < begin) pieces.push_back({done, begin, -1});
    // White space that an earlier token has stripped may hold this whole token: then it is gone.
    if (begin < end) pieces.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) pieces.push_back({done, text.size(), -1});
}

}  // namespace fathom
