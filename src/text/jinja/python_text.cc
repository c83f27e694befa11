// Python's str() and repr() of template values, and HTML escaping.
#include "text/jinja/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/macro.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

std::string int_text(Int value, unsigned base) {
  auto rest = static_cast<unsigned __int128>(value);
  if (value < 0) rest = -rest;
  std::string digits;
  do {
    digits.push_back("0123456789abcdef"[static_cast<size_t>(rest % base)]);
    rest /= base;
  } while (rest != 0);
  if (value < 0) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const char* digits_of_exponent = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits_of_exponent, text.data() + text.size(), exponent);
  std::string sign = text[0] == '-' ? "-" : "";
  std::string digits;
  for (char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    if (count > 1) digits.insert(1, ".");
    const std::string power = std::to_string(std::abs(exponent));
    return sign + digits + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  return sign + digits.insert(static_cast<size_t>(exponent) + 1, ".");
}

std::string repr_text(std::string_view text) {
  const char quote =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"'
                                                                                            : '\'';
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out(1, quote);
  const auto hex = [&out](char32_t c, int digits) {
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out.push_back(kHex[c >> shift & 15]);
  };
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_character(text, i);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      append_character(out, c);
    } else {
      out += c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
      hex(c, c < 0x100 ? 2 : c < 0x10000 ? 4 : 8);
    }
  }
  out.push_back(quote);
  return out;
}

namespace {

void append_items(TextBuilder& out, Runtime& runtime, const std::vector<Value>& items) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.append(", ");
    first = false;
    append_repr(out, runtime, item);
  }
}

void append_dict(TextBuilder& out, Runtime& runtime, const DictObject& dict) {
  out.append('{');
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out.append(", ");
    first = false;
    append_repr(out, runtime, key);
    out.append(": ");
    append_repr(out, runtime, value);
  }
  out.append('}');
}

void append_view(TextBuilder& out, Runtime& runtime, const Value& value) {
  const auto& view = value.as<DictViewObject>();
  out.append(type_name(value)).append("([");
  bool first = true;
  for (const auto& [key, item] : view.dict.dict().entries) {
    if (!first) out.append(", ");
    first = false;
    if (view.kind == DictViewObject::Kind::kItems) {
      out.append('(');
      append_repr(out, runtime, key);
      out.append(", ");
      append_repr(out, runtime, item);
      out.append(')');
    } else {
      append_repr(out, runtime, view.kind == DictViewObject::Kind::kKeys ? key : item);
    }
  }
  out.append("])");
}

void append_namespace(TextBuilder& out, Runtime& runtime, const NamespaceObject& object) {
  out.append("<Namespace {");
  bool first = true;
  for (const auto& [name, value] : object.attributes) {
    if (!first) out.append(", ");
    first = false;
    out.append(repr_text(name)).append(": ");
    append_repr(out, runtime, value);
  }
  out.append("}>");
}

std::string range_text(const RangeObject& range) {
  std::string text = "range(" + int_text(range.start) + ", " + int_text(range.stop);
  return text + (range.step == 1 ? ")" : ", " + int_text(range.step) + ")");
}

}  // namespace

void append_repr(TextBuilder& out, Runtime& runtime, const Value& value) {
  const DepthGuard guard(runtime);
  runtime.step();
  switch (value.type()) {
    case Type::kMissing:
    case Type::kUndefined:
      out.append("Undefined");
      return;
    case Type::kNone:
      out.append("None");
      return;
    case Type::kBool:
      out.append(value.as_bool() ? "True" : "False");
      return;
    case Type::kInt:
      out.append(int_text(value.as_int()));
      return;
    case Type::kFloat:
      out.append(float_text(value.as_double()));
      return;
    case Type::kString:
      runtime.reserve(value.text().size() * 4);
      runtime.work(value.text().size() * 4);
      if (value.markup()) {
        out.append("Markup(").append(repr_text(value.text())).append(')');
      } else {
        out.append(repr_text(value.text()));
      }
      return;
    case Type::kList:
      out.append('[');
      append_items(out, runtime, value.items());
      out.append(']');
      return;
    case Type::kTuple:
      out.append('(');
      append_items(out, runtime, value.items());
      out.append(value.items().size() == 1 ? ",)" : ")");
      return;
    case Type::kDict:
      append_dict(out, runtime, value.dict());
      return;
    case Type::kRange:
      out.append(range_text(value.as<RangeObject>()));
      return;
    case Type::kDictView:
      append_view(out, runtime, value);
      return;
    case Type::kNamespace:
      append_namespace(out, runtime, value.as<NamespaceObject>());
      return;
    case Type::kMacro:
      out.append("<Macro ").append(macro_label(value)).append('>');
      return;
    case Type::kLoop:
      out.append(loop_text(runtime, value));
      return;
    case Type::kIterator:
    case Type::kFunction:
      // Python prints an address here, which no two runs share.
      out.append('<').append(type_name(value)).append(" object>");
      return;
  }
}

void append_str(TextBuilder& out, Runtime& runtime, const Value& value) {
  if (value.is_string()) {
    out.append(value.text());
  } else if (!value.undefined() && !value.missing()) {
    append_repr(out, runtime, value);
  }
}

std::string str(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime);
  append_str(out, runtime, value);
  return out.take();
}

std::string repr(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime);
  append_repr(out, runtime, value);
  return out.take();
}

Value soft_string(Runtime& runtime, const Value& value) {
  return value.is_string() ? value : runtime.string(str(runtime, value));
}

void append_escaped_html(TextBuilder& out, std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find_first_of("&<>'\"", i), text.size());
    out.append(text.substr(i, end - i));
    if (end == text.size()) return;
    switch (text[end]) {
      case '&':
        out.append("&amp;");
        break;
      case '<':
        out.append("&lt;");
        break;
      case '>':
        out.append("&gt;");
        break;
      case '\'':
        out.append("&#39;");
        break;
      default:
        out.append("&#34;");
        break;
    }
    i = end + 1;
  }
}

Value escape_html(Runtime& runtime, const Value& value) {
  if (value.markup()) return value;
  TextBuilder out(runtime);
  append_escaped_html(out, str(runtime, value));
  return out.value(true);
}

}  // namespace fathom::jinja
