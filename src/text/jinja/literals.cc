// Number and string literals of template code.
#include "text/jinja/literals.h"

#include <cstdlib>

#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// End of digits of `base` with single underscores between them, from a digit at `at`.
size_t digits_end(std::string_view text, size_t at, int base) {
  const auto digit = [&](size_t i) { return i < text.size() && digit_of(text[i]) < base; };
  while (digit(at)) {
    ++at;
    if (at < text.size() && text[at] == '_' && digit(at + 1)) ++at;
  }
  return at;
}

// End of a float literal at `at`; `at` itself if there is none.
size_t float_end(std::string_view text, size_t at) {
  if (at > 0 && text[at - 1] == '.') return at;
  const size_t whole = digits_end(text, at, 10);
  if (whole == at) return at;
  size_t end = whole;
  if (end < text.size() && text[end] == '.') {
    const size_t fraction = digits_end(text, end + 1, 10);
    if (fraction == end + 1) return at;
    end = fraction;
  }
  if (end < text.size() && (text[end] | 32) == 'e') {
    size_t exponent = end + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    const size_t digits = digits_end(text, exponent, 10);
    if (digits > exponent) return digits;
  }
  return end > whole ? end : at;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c != '_') out.push_back(c);
  }
  return out;
}

struct IntegerSpan {
  size_t digits, end;
  int base;
};

IntegerSpan integer_span(std::string_view text, size_t at) {
  if (text[at] == '0' && at + 1 < text.size()) {
    const char letter = static_cast<char>(text[at + 1] | 32);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (base != 0) {
      const size_t begin = at + 2 < text.size() && text[at + 2] == '_' ? at + 3 : at + 2;
      const size_t end = digits_end(text, begin, base);
      if (end > begin) return {begin, end, base};
    }
  }
  // A number that starts with 0 is all zeros: "07" reads as 0 and then 7.
  return {at, digits_end(text, at, text[at] == '0' ? 1 : 10), 10};
}

}  // namespace

NumberLiteral scan_number(std::string_view text, size_t at) {
  NumberLiteral literal;
  if (at >= text.size() || text[at] < '0' || text[at] > '9') return literal;
  if (const size_t end = float_end(text, at); end > at) {
    literal.size = end - at;
    literal.is_float = true;
    const std::string plain = without_underscores(text.substr(at, end - at));
    literal.value = Value::real(std::strtod(plain.c_str(), nullptr));
    return literal;
  }
  const IntegerSpan span = integer_span(text, at);
  Int value = 0;
  for (char c : without_underscores(text.substr(span.digits, span.end - span.digits))) {
    literal.too_large = literal.too_large ||
                        __builtin_mul_overflow(value, static_cast<Int>(span.base), &value) ||
                        __builtin_add_overflow(value, static_cast<Int>(digit_of(c)), &value);
  }
  literal.size = span.end - at;
  literal.value = Value::integer(value);
  return literal;
}

namespace {

// Reads exactly `count` hexadecimal digits at `at`; false if they are not there.
bool read_hex(std::string_view text, size_t at, size_t count, char32_t& out) {
  out = 0;
  for (size_t i = 0; i < count; ++i) {
    if (at + i >= text.size() || digit_of(text[at + i]) > 15) return false;
    out = out << 4 | static_cast<char32_t>(digit_of(text[at + i]));
  }
  return true;
}

// A backslash before a non-ASCII character: Jinja turns the character into an ASCII escape first,
// so Python sees an escaped backslash and then plain letters.
void append_literal_escape(std::string& out, char32_t c) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
  for (int shift = c < 0x100 ? 4 : c < 0x10000 ? 12 : 28; shift >= 0; shift -= 4) {
    out.push_back(kHex[c >> shift & 15]);
  }
}

constexpr std::string_view kSimple = "\\'\"abfnrtv";
constexpr std::string_view kSimpleMeaning = "\\'\"\a\b\f\n\r\t\v";

}  // namespace

UnescapeError unescape(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out.push_back(text[i++]);
      continue;
    }
    const char c = text[++i];
    if (static_cast<unsigned char>(c) >= 0x80) {
      append_literal_escape(out, next_character(text, i));
    } else if (c == '\n') {
      ++i;
    } else if (const size_t simple = kSimple.find(c); simple != std::string_view::npos) {
      out.push_back(kSimpleMeaning[simple]);
      ++i;
    } else if (c >= '0' && c <= '7') {
      char32_t code = 0;
      for (int n = 0; n < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++n, ++i) {
        code = code * 8 + static_cast<char32_t>(text[i] - '0');
      }
      append_character(out, code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      char32_t code = 0;
      if (!read_hex(text, i + 1, digits, code)) return {"truncated escape in a string"};
      if (code > 0x10FFFF) return {"illegal Unicode character in a string"};
      if (code >= 0xD800 && code <= 0xDFFF) {
        return {"a lone surrogate in a string is not supported", true};
      }
      append_character(out, code);
      i += 1 + digits;
    } else if (c == 'N') {
      return {"\\N{...} in a string is not supported", true};
    } else {
      out.push_back('\\');
      out.push_back(c);
      ++i;
    }
  }
  return {};
}

}  // namespace fathom::jinja
