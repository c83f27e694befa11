// "%s" % x, and numbers in the notations both format languages share.
#include "text/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

void append_padded(TextBuilder& out, std::string_view text, const FormatSpec& spec,
                   char default_align) {
  const auto size = static_cast<int64_t>(count_characters(text));
  const auto pad = static_cast<size_t>(std::max<int64_t>(0, spec.width - size));
  const char align = spec.align != 0 ? spec.align : default_align;
  std::string fill;
  append_character(fill, spec.fill);
  const bool sign =
      align == '=' && !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ');
  if (sign) out.append(text[0]);
  out.repeat(fill, align == '<' ? 0 : align == '^' ? pad / 2 : pad);
  out.append(text.substr(sign ? 1 : 0));
  out.repeat(fill, align == '<' ? pad : align == '^' ? pad - pad / 2 : 0);
}

namespace {

std::string float_digits(Runtime& runtime, double value, const FormatSpec& spec) {
  if (!std::isfinite(value)) {
    std::string text = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G') {
      for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    return text;
  }
  if (spec.precision > 400) {
    runtime.fail(FailureKind::kUnsupported, "a precision beyond 400 digits is not supported");
  }
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const std::string pattern = std::string(spec.alternate ? "%#.*" : "%.*") + spec.type;
  char buffer[1024];
  std::snprintf(buffer, sizeof(buffer), pattern.c_str(), precision, value);
  return buffer;
}

std::string group_digits(const std::string& text, char separator, size_t every) {
  size_t begin = text.find_first_of("0123456789abcdefABCDEF");
  if (begin == std::string::npos) return text;
  size_t end = begin;
  while (end < text.size() && std::isxdigit(static_cast<unsigned char>(text[end])) != 0 &&
         (every == 4 || std::isdigit(static_cast<unsigned char>(text[end])) != 0)) {
    ++end;
  }
  std::string out = text.substr(0, begin);
  for (size_t i = begin; i < end; ++i) {
    if (i > begin && (end - i) % every == 0) out.push_back(separator);
    out.push_back(text[i]);
  }
  return out + text.substr(end);
}

std::string integer_digits(Int value, const FormatSpec& spec) {
  const char type = spec.type == 0 ? 'd' : spec.type;
  const unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  std::string digits = int_text(value < 0 ? -value : value, base);
  if (spec.precision > static_cast<int64_t>(digits.size()) && spec.precision < 1000) {
    digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
  }
  if (type == 'X') {
    for (char& c : digits) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  if (spec.alternate && base != 10) digits.insert(0, std::string("0") + type);
  return (value < 0 ? "-" : "") + digits;
}

}  // namespace

void append_number(TextBuilder& out, Runtime& runtime, const Value& value, const FormatSpec& spec) {
  std::string text;
  if (spec.type == '%') {
    FormatSpec fixed = spec;
    fixed.type = 'f';
    text = float_digits(runtime, value.as_double() * 100, fixed) + "%";
  } else if (std::string_view("eEfFgG").find(spec.type) != std::string_view::npos &&
             spec.type != 0) {
    text = float_digits(runtime, value.as_double(), spec);
  } else {
    text = integer_digits(value.as_int(), spec);
  }
  if (text[0] != '-' && spec.sign != '-') text.insert(0, 1, spec.sign);
  if (spec.grouping != 0) {
    const bool hex = spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b';
    text = group_digits(text, spec.grouping, hex ? 4 : 3);
  }
  FormatSpec padded = spec;
  if (spec.zero && spec.align == 0) {
    padded.fill = '0';
    padded.align = '=';
  }
  append_padded(out, text, padded, '>');
}

namespace {

// Walks a printf-style format and its arguments.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& format, const Value& argument)
      : runtime_(runtime),
        format_(format),
        text_(format.text()),
        argument_(argument),
        out_(runtime) {
    is_tuple_ = argument.is(Type::kTuple);
  }

  Value run() {
    while (at_ < text_.size()) {
      const size_t percent = std::min(text_.find('%', at_), text_.size());
      out_.append(text_.substr(at_, percent - at_));
      at_ = percent;
      if (at_ < text_.size()) directive();
    }
    const size_t count = is_tuple_ ? argument_.items().size() : 1;
    const bool mapping = argument_.is(Type::kDict) || argument_.is(Type::kList) ||
                         argument_.is(Type::kRange) || argument_.undefined();
    if (used_ < count && (is_tuple_ || !mapping)) {
      runtime_.type_error("not all arguments converted during string formatting");
    }
    return out_.value(format_.markup());
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : 0; }

  Value next_argument() {
    if (is_tuple_ ? used_ >= argument_.items().size() : used_ >= 1) {
      runtime_.type_error("not enough arguments for format string");
    }
    return is_tuple_ ? argument_.items()[used_++] : (++used_, argument_);
  }

  int64_t number() {
    if (peek() == '*') {
      ++at_;
      const Value value = next_argument();
      if (!value.is_integral()) runtime_.type_error("* wants int");
      return index_argument(runtime_, value);
    }
    int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = std::min<int64_t>(value * 10 + (text_[at_++] - '0'), int64_t{1} << 40);
    }
    return value;
  }

  Value mapped_argument() {
    ++at_;
    int depth = 1;
    const size_t begin = at_;
    while (at_ < text_.size() && depth > 0) {
      depth += text_[at_] == '(' ? 1 : text_[at_] == ')' ? -1 : 0;
      ++at_;
    }
    if (depth > 0) runtime_.fail(FailureKind::kValue, "incomplete format key");
    if (!argument_.is(Type::kDict)) runtime_.type_error("format requires a mapping");
    const std::string key(text_.substr(begin, at_ - 1 - begin));
    const Value* value = argument_.dict().find(key);
    if (value == nullptr) runtime_.fail(FailureKind::kKey, repr_text(key));
    used_ = 1;
    return *value;
  }

  void directive() {
    ++at_;  // '%'
    FormatSpec spec;
    Value mapped;
    if (peek() == '(') mapped = mapped_argument();
    for (; peek() != 0 && std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at_) {
      if (peek() == '-') spec.align = '<';
      if (peek() == '+') spec.sign = '+';
      if (peek() == ' ' && spec.sign != '+') spec.sign = ' ';
      if (peek() == '#') spec.alternate = true;
      if (peek() == '0') spec.zero = true;
    }
    spec.width = number();
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(0, number());
    }
    if (peek() != 0 && std::string_view("hlL").find(peek()) != std::string_view::npos) ++at_;
    if (at_ >= text_.size()) runtime_.fail(FailureKind::kValue, "incomplete format");
    spec.type = text_[at_++];
    if (spec.type == '%') {
      out_.append('%');
      return;
    }
    convert(mapped.missing() ? next_argument() : mapped, spec);
  }

  void convert(const Value& value, FormatSpec spec) {
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a':
        text_directive(value, spec);
        return;
      case 'c':
        character_directive(value, spec);
        return;
      case 'i':
      case 'u':
        spec.type = 'd';
        break;
      default:
        if (std::string_view("dxXoeEfFgG").find(spec.type) == std::string_view::npos) {
          runtime_.fail(FailureKind::kValue,
                        std::string("unsupported format character '") + spec.type + "'");
        }
    }
    runtime_.require_defined(value);
    const bool integer = std::string_view("dxXo").find(spec.type) != std::string_view::npos;
    if (!value.is_number() || (integer && spec.type != 'd' && value.is(Type::kFloat))) {
      runtime_.type_error(std::string("%") + spec.type + " format: a " +
                          (integer ? "real number" : "number") + " is required, not " +
                          type_name(value));
    }
    Value number = value;
    if (integer && value.is(Type::kFloat)) {
      if (!(std::abs(value.as_double()) < 0x1p126)) {
        runtime_.fail(FailureKind::kOverflow, "cannot convert float to a bounded integer");
      }
      number = Value::integer(static_cast<Int>(value.as_double()));
    }
    append_number(out_, runtime_, number, spec);
  }

  void text_directive(const Value& value, const FormatSpec& spec) {
    if (spec.type == 'a') runtime_.fail(FailureKind::kUnsupported, "%a is not supported");
    std::string text = spec.type == 's' ? str(runtime_, value) : repr(runtime_, value);
    if (format_.markup() && !value.markup()) {
      TextBuilder escaped(runtime_);
      append_escaped_html(escaped, text);
      text = escaped.take();
    }
    if (spec.precision >= 0) text.resize(byte_offset(text, static_cast<size_t>(spec.precision)));
    append_padded(out_, text, spec, '>');
  }

  void character_directive(const Value& value, const FormatSpec& spec) {
    std::string text;
    if (value.is_string() && value.string_object().characters == 1) {
      text = value.text();
    } else if (value.is_integral() && value.as_int() >= 0 && value.as_int() < 0x110000 &&
               (value.as_int() < 0xD800 || value.as_int() > 0xDFFF)) {
      append_character(text, static_cast<char32_t>(value.as_int()));
    } else {
      runtime_.type_error("%c requires int or char");
    }
    append_padded(out_, text, spec, '>');
  }

  Runtime& runtime_;
  const Value format_;
  const std::string_view text_;
  const Value argument_;
  TextBuilder out_;
  bool is_tuple_ = false;
  size_t at_ = 0;
  size_t used_ = 0;
};

}  // namespace

Value format_percent(Runtime& runtime, const Value& format, const Value& argument) {
  return PercentFormatter(runtime, format, argument).run();
}

}  // namespace fathom::jinja
