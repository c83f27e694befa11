// Template text → tokens, with Jinja's white-space rules for trim_blocks and lstrip_blocks.
#include "text/jinja/lexer.h"

#include <algorithm>
#include <cstdlib>

#include "text/jinja/failure.h"
#include "text/jinja/literals.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

// Line ends become "\n", and one at the very end is dropped.
std::string normalize(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text.push_back(source[i]);
      continue;
    }
    text.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalize(source)) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) root();
    add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Failure(FailureKind::kSyntax, message, line_);
  }

  std::string_view rest(size_t at) const { return std::string_view(text_).substr(at); }
  bool at_text(size_t at, std::string_view what) const { return rest(at).starts_with(what); }

  void add(TokenType type, std::string text) {
    Token token;
    token.type = type;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  // Moves to `end`, counting lines.
  void advance(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    line_starting_ = end > at_ ? text_[end - 1] == '\n' : line_starting_;
    at_ = end;
  }

  size_t skip_space(size_t at) const {
    while (at < text_.size()) {
      size_t next = at;
      if (!is_space(next_character(text_, next))) break;
      at = next;
    }
    return at;
  }

  // End of a tag's closing at `at`: "-%}" and the space after it, "+%}" or "%}" and one line end
  // after it (trim_blocks); npos if there is none.
  size_t closing(size_t at, std::string_view end, bool trims, bool plus) const {
    if (at < text_.size() && text_[at] == '-' && at_text(at + 1, end)) {
      return skip_space(at + 1 + end.size());
    }
    if (plus && at < text_.size() && text_[at] == '+' && at_text(at + 1, end)) {
      return at + 1 + end.size();
    }
    if (!at_text(at, end)) return std::string::npos;
    at += end.size();
    return trims && at < text_.size() && text_[at] == '\n' ? at + 1 : at;
  }

  // Text before a tag, cut as the tag's sign asks: '-' strips all space, '+' none, otherwise
  // lstrip_blocks strips what stands between the line's begin and the tag.
  std::string_view before_tag(std::string_view data, char sign, bool variable) const {
    if (sign == '-') {
      const StripRange range = strip_range(data, nullptr, false, true);
      return data.substr(0, range.end);
    }
    if (sign == '+' || variable) return data;
    const size_t newline = data.rfind('\n');
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (line_begin == 0 && !line_starting_) return data;
    const std::string_view indent = data.substr(line_begin);
    const StripRange range = strip_range(indent, nullptr, true, false);
    return range.begin == indent.size() ? data.substr(0, line_begin) : data;
  }

  char sign_at(size_t at) const {
    return at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? text_[at] : '\0';
  }

  // Length of "{%- raw %}" at `at`, 0 if it is something else. `word` is raw or endraw.
  size_t raw_tag(size_t at, std::string_view word, bool end) const {
    size_t i = at + 2;
    if (sign_at(i) != 0) ++i;
    i = skip_space(i);
    if (!at_text(i, word)) return 0;
    i = skip_space(i + word.size());
    const size_t close = closing(i, "%}", end, end);
    return close == std::string::npos ? 0 : close - at;
  }

  void add_data(std::string_view data) {
    if (!data.empty()) add(TokenType::kData, std::string(data));
  }

  void root() {
    size_t tag = at_;
    while (true) {
      tag = text_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= text_.size()) {
        add_data(rest(at_));
        advance(text_.size());
        return;
      }
      if (std::string_view("{%#").find(text_[tag + 1]) != std::string_view::npos) break;
      ++tag;
    }
    const char kind = text_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_data(before_tag(rest(at_).substr(0, tag - at_), sign, kind == '{'));
    const size_t raw = kind == '%' ? raw_tag(tag, "raw", false) : 0;
    advance(tag);
    const size_t open = tag + 2 + (sign != 0 ? 1 : 0);
    if (raw > 0) {
      raw_block(tag + raw);
    } else if (kind == '#') {
      comment(open);
    } else {
      add(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin, "");
      advance(open);
      code(kind == '{');
    }
  }

  void comment(size_t begin) {
    if (begin >= text_.size()) {
      advance(text_.size());
      return;  // Jinja lets a template end right after "{#"
    }
    for (size_t i = begin; i < text_.size(); ++i) {
      const size_t end = closing(i, "#}", true, true);
      if (end == std::string::npos) continue;
      advance(end);
      return;
    }
    fail("Missing end of comment tag");
  }

  void raw_block(size_t begin) {
    advance(begin);
    if (begin >= text_.size()) return;
    for (size_t i = text_.find("{%", begin); i != std::string::npos; i = text_.find("{%", i + 1)) {
      const size_t size = raw_tag(i, "endraw", true);
      if (size == 0) continue;
      add_data(before_tag(rest(begin).substr(0, i - begin), sign_at(i + 2), false));
      advance(i + size);
      return;
    }
    fail("Missing end of raw directive");
  }

  void code(bool variable) {
    brackets_.clear();
    while (at_ < text_.size()) {
      if (brackets_.empty()) {
        const size_t end =
            variable ? closing(at_, "}}", false, false) : closing(at_, "%}", true, true);
        if (end != std::string::npos) {
          add(variable ? TokenType::kVariableEnd : TokenType::kBlockEnd, "");
          advance(end);
          return;
        }
      }
      const size_t next = skip_space(at_);
      if (next != at_) {
        advance(next);
      } else {
        code_token();
      }
    }
  }

  void code_token() {
    const NumberLiteral number = scan_number(text_, at_);
    if (number.size > 0) {
      add(number.is_float ? TokenType::kFloat : TokenType::kInteger,
          std::string(rest(at_).substr(0, number.size)));
      if (number.too_large) {
        throw Failure(FailureKind::kUnsupported, "integers beyond 128 bits are not supported",
                      line_);
      }
      tokens_.back().value = number.value;
      advance(at_ + number.size);
      return;
    }
    size_t end = at_;
    while (end < text_.size()) {
      size_t next = end;
      const char32_t c = next_character(text_, next);
      if (!is_word(c) && !(c >= 0x80 && is_identifier("a" + text_.substr(end, next - end)))) break;
      end = next;
    }
    if (end > at_) {
      name(end);
    } else if (text_[at_] == '"' || text_[at_] == '\'') {
      string_literal();
    } else {
      operator_token();
    }
  }

  void name(size_t end) {
    std::string text(rest(at_).substr(0, end - at_));
    if (!is_identifier(text)) fail("Invalid character in identifier");
    add(TokenType::kName, std::move(text));
    advance(end);
  }

  void string_literal() {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != text_[at_]) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) unexpected_character();
    std::string decoded;
    const UnescapeError error = unescape(rest(at_ + 1).substr(0, end - at_ - 1), decoded);
    if (error.message != nullptr) {
      throw Failure(error.unsupported ? FailureKind::kUnsupported : FailureKind::kSyntax,
                    error.message, line_);
    }
    add(TokenType::kString, std::move(decoded));
    advance(end + 1);
  }

  [[noreturn]] void unexpected_character() const {
    size_t next = at_;
    next_character(text_, next);
    fail("unexpected char '" + text_.substr(at_, next - at_) + "'");
  }

  void operator_token() {
    static constexpr std::string_view kPairs[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingles = "+-/*%~[](){}><=.:|,;";
    for (std::string_view pair : kPairs) {
      if (!at_text(at_, pair)) continue;
      add(TokenType::kOperator, std::string(pair));
      advance(at_ + 2);
      return;
    }
    const char c = text_[at_];
    if (kSingles.find(c) == std::string_view::npos) unexpected_character();
    if (c == '(' || c == '[' || c == '{') {
      brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty()) fail(std::string("unexpected '") + c + "'");
      if (brackets_.back() != c) {
        fail(std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'");
      }
      brackets_.pop_back();
    }
    add(TokenType::kOperator, std::string(1, c));
    advance(at_ + 1);
  }

  const std::string text_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last match ended with a line end
  std::string brackets_;       // closing brackets still expected
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::kData:
      return "template data / text";
    case TokenType::kVariableBegin:
      return "begin of print statement";
    case TokenType::kVariableEnd:
      return "end of print statement";
    case TokenType::kBlockBegin:
      return "begin of statement block";
    case TokenType::kBlockEnd:
      return "end of statement block";
    case TokenType::kString:
      return "string";
    case TokenType::kInteger:
      return "integer";
    case TokenType::kFloat:
      return "float";
    case TokenType::kEnd:
      return "end of template";
    default:
      return token.text;
  }
}

}  // namespace fathom::jinja
