// "{}".format(x): replacement fields, conversions and format specifications.
#include <algorithm>
#include <cmath>

#include "text/jinja/attributes.h"
#include "text/jinja/format.h"
#include "text/jinja/python_text.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

bool is_align(char32_t c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

FormatSpec parse_spec(Runtime& runtime, std::string_view text) {
  FormatSpec spec;
  const std::u32string s = decode(text);
  size_t i = 0;
  const auto peek = [&](size_t at) { return at < s.size() ? s[at] : U'\0'; };
  if (s.size() >= 2 && is_align(s[1])) {
    spec.fill = s[0];
    spec.align = static_cast<char>(s[1]);
    i = 2;
  } else if (is_align(peek(0))) {
    spec.align = static_cast<char>(s[i++]);
  }
  if (peek(i) == '+' || peek(i) == '-' || peek(i) == ' ') spec.sign = static_cast<char>(s[i++]);
  if (peek(i) == '#') spec.alternate = (++i, true);
  if (peek(i) == '0') spec.zero = (++i, true);
  const auto number = [&] {
    int64_t value = 0;
    for (; peek(i) >= '0' && peek(i) <= '9'; ++i) {
      value = std::min<int64_t>(value * 10 + static_cast<int64_t>(s[i] - '0'), int64_t{1} << 40);
    }
    return value;
  };
  spec.width = number();
  if (peek(i) == ',' || peek(i) == '_') spec.grouping = static_cast<char>(s[i++]);
  if (peek(i) == '.') {
    ++i;
    if (!(peek(i) >= '0' && peek(i) <= '9')) {
      runtime.fail(FailureKind::kValue, "Format specifier missing precision");
    }
    spec.precision = number();
  }
  if (i < s.size() && s[i] < 0x80) spec.type = static_cast<char>(s[i++]);
  if (i != s.size()) runtime.fail(FailureKind::kValue, "Invalid format specifier");
  return spec;
}

[[noreturn]] void unknown_code(Runtime& runtime, char code, const Value& value) {
  runtime.fail(FailureKind::kValue, std::string("Unknown format code '") + code +
                                        "' for object of type '" + type_name(value) + "'");
}

void format_text(TextBuilder& out, Runtime& runtime, const Value& value, FormatSpec spec) {
  if (spec.type != 0 && spec.type != 's') unknown_code(runtime, spec.type, value);
  if (spec.sign != '-' || spec.align == '=' || spec.grouping != 0 || spec.alternate) {
    runtime.fail(FailureKind::kValue, "this format specifier is not allowed for strings");
  }
  if (spec.zero && spec.align == 0) {
    spec.fill = '0';
    spec.align = '<';
  }
  std::string_view text = value.text();
  if (spec.precision >= 0) {
    text = text.substr(0, byte_offset(text, static_cast<size_t>(spec.precision)));
  }
  append_padded(out, text, spec, '<');
}

void format_float(TextBuilder& out, Runtime& runtime, const Value& value, FormatSpec spec) {
  if (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) == std::string_view::npos) {
    unknown_code(runtime, spec.type, value);
  }
  if (spec.type == 0 && spec.precision >= 0) {
    runtime.fail(FailureKind::kUnsupported,
                 "a float format with a precision but no type is not supported");
  }
  if (spec.type != 0) {
    append_number(out, runtime, value, spec);
    return;
  }
  std::string text = float_text(value.as_double());
  if (text[0] != '-' && spec.sign != '-') text.insert(0, 1, spec.sign);
  if (spec.grouping != 0) {
    runtime.fail(FailureKind::kUnsupported, "grouping without a float type is not supported");
  }
  if (spec.zero && spec.align == 0) {
    spec.fill = '0';
    spec.align = '=';
  }
  append_padded(out, text, spec, '>');
}

void format_field(TextBuilder& out, Runtime& runtime, const Value& value, std::string_view text) {
  if (text.empty()) {
    append_str(out, runtime, value);
    return;
  }
  const FormatSpec spec = parse_spec(runtime, text);
  if (value.is_string()) {
    format_text(out, runtime, value, spec);
  } else if (value.is(Type::kFloat)) {
    format_float(out, runtime, value, spec);
  } else if (value.is_integral()) {
    if (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos) {
      append_number(out, runtime, Value::real(value.as_double()), spec);
    } else if (spec.type == 0 ||
               std::string_view("dxXob").find(spec.type) != std::string_view::npos) {
      if (spec.precision >= 0) {
        runtime.fail(FailureKind::kValue, "Precision not allowed in integer format specifier");
      }
      append_number(out, runtime, value, spec);
    } else {
      unknown_code(runtime, spec.type, value);
    }
  } else {
    runtime.type_error(std::string("unsupported format string passed to ") + type_name(value) +
                       ".__format__");
  }
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Value& format, const Args& args, const Value& mapping)
      : runtime_(runtime), format_(format), args_(args), mapping_(mapping) {}

  Value run() {
    TextBuilder out(runtime_);
    expand(out, format_.text(), 2);
    return out.value(format_.markup());
  }

 private:
  [[noreturn]] void invalid(const std::string& message) {
    runtime_.fail(FailureKind::kValue, message);
  }

  // Expands replacement fields; specifications may nest `levels` deep.
  void expand(TextBuilder& out, std::string_view text, int levels) {
    if (levels == 0) invalid("Max string recursion exceeded");
    for (size_t i = 0; i < text.size();) {
      const size_t brace = std::min(text.find_first_of("{}", i), text.size());
      out.append(text.substr(i, brace - i));
      if (brace == text.size()) return;
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        out.append(text[brace]);
        i = brace + 2;
        continue;
      }
      if (text[brace] == '}') invalid("Single '}' encountered in format string");
      int depth = 1;
      size_t end = brace + 1;
      for (; end < text.size() && depth > 0; ++end) {
        depth += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
      }
      if (depth > 0) {
        invalid(brace + 1 == text.size() ? "Single '{' encountered in format string"
                                         : "expected '}' before end of string");
      }
      field(out, text.substr(brace + 1, end - brace - 2), levels);
      i = end;
    }
  }

  void field(TextBuilder& out, std::string_view text, int levels) {
    runtime_.step();
    size_t end = 0;
    for (bool inside = false; end < text.size(); ++end) {
      if (text[end] == '[') inside = true;
      if (text[end] == ']') inside = false;
      if (!inside && (text[end] == '!' || text[end] == ':')) break;
    }
    Value value = lookup(text.substr(0, end));
    if (end < text.size() && text[end] == '!') {
      const char conversion = end + 1 < text.size() ? text[end + 1] : 0;
      if (conversion == 'r')
        value = runtime_.string(repr(runtime_, value));
      else if (conversion == 's')
        value = runtime_.string(str(runtime_, value));
      else
        invalid("Unknown conversion specifier");
      end += 2;
      if (end < text.size() && text[end] != ':') {
        invalid("expected ':' after conversion specifier");
      }
    }
    TextBuilder spec(runtime_);
    if (end < text.size()) expand(spec, text.substr(end + 1), levels - 1);
    if (!format_.markup()) {
      format_field(out, runtime_, value, spec.text());
    } else {
      TextBuilder plain(runtime_);
      format_field(plain, runtime_, value, spec.text());
      if (value.markup())
        out.append(plain.text());
      else
        append_escaped_html(out, plain.text());
    }
  }

  Value positional(size_t index) {
    if (index >= args_.positional.size()) {
      runtime_.fail(FailureKind::kIndex, "Replacement index " + std::to_string(index) +
                                             " out of range for positional args tuple");
    }
    return args_.positional[index];
  }

  Value named(const std::string& name) {
    if (!mapping_.missing()) {
      const Value value = get_item(runtime_, mapping_, runtime_.string(name));
      if (!value.undefined()) return value;
    }
    for (const auto& [keyword, value] : args_.keywords) {
      if (keyword == name) return value;
    }
    runtime_.fail(FailureKind::kKey, repr_text(name));
  }

  static bool digits(std::string_view text) {
    return !text.empty() && text.size() < 9 &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  }

  Value first_value(const std::string& name) {
    const bool number = digits(name);
    if (name.empty() || number) {
      const int numbering = name.empty() ? 1 : 2;
      if (numbering_ != 0 && numbering_ != numbering) {
        invalid("cannot switch between manual field specification and automatic field numbering");
      }
      numbering_ = numbering;
      return positional(name.empty() ? automatic_++ : std::stoul(name));
    }
    return named(name);
  }

  Value lookup(std::string_view path) {
    size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = first_value(std::string(path.substr(0, end)));
    while (end < path.size()) {
      runtime_.step();
      if (path[end] == '.') {
        const size_t next = std::min(path.find_first_of(".[", end + 1), path.size());
        value = get_attribute(runtime_, value, std::string(path.substr(end + 1, next - end - 1)));
        end = next;
        continue;
      }
      const size_t close = path.find(']', end);
      if (path[end] != '[' || close == std::string_view::npos) {
        invalid("Only '.' or '[' may follow ']' in format field specifier");
      }
      const std::string key(path.substr(end + 1, close - end - 1));
      value = get_item(runtime_, value,
                       digits(key) ? Value::integer(std::stol(key)) : runtime_.string(key));
      end = close + 1;
    }
    return value;
  }

  Runtime& runtime_;
  const Value format_;
  const Args& args_;
  const Value mapping_;
  int numbering_ = 0;  // 0: none yet, 1: automatic, 2: manual
  size_t automatic_ = 0;
};

}  // namespace

Value format_braces(Runtime& runtime, const Value& format, const Args& args, const Value& mapping) {
  return BraceFormatter(runtime, format, args, mapping).run();
}

}  // namespace fathom::jinja
