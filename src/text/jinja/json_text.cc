// json.dumps() of template values, byte for byte.
#include <algorithm>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

void append_hex_escape(std::string& out, uint32_t unit) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out.push_back(kHex[unit >> shift & 15]);
}

void append_json_string(TextBuilder& builder, Runtime& runtime, std::string_view text, bool ascii) {
  runtime.work(text.size() * 2);
  builder.append('"');
  std::string out;
  size_t plain = 0;  // start of a run that needs no escape
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const char32_t c = next_character(text, i);
    const bool escapes = c < 0x20 || c == '"' || c == '\\' || (ascii && c > 0x7E);
    if (!escapes) continue;
    builder.append(text.substr(plain, at - plain));
    plain = i;
    out.clear();
    switch (c) {
      case '"':
        out = "\\\"";
        break;
      case '\\':
        out = "\\\\";
        break;
      case '\n':
        out = "\\n";
        break;
      case '\r':
        out = "\\r";
        break;
      case '\t':
        out = "\\t";
        break;
      case '\b':
        out = "\\b";
        break;
      case '\f':
        out = "\\f";
        break;
      default:
        if (c >= 0x10000) {
          append_hex_escape(out, 0xD800 + ((c - 0x10000) >> 10));
          append_hex_escape(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
        } else {
          append_hex_escape(out, c);
        }
    }
    builder.append(out);
  }
  builder.append(text.substr(plain)).append('"');
}

std::string json_number(const Value& value) {
  if (value.is(Type::kBool)) return value.as_bool() ? "true" : "false";
  if (value.is(Type::kInt)) return int_text(value.as_int());
  const double d = value.as_double();
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return float_text(d);
}

class JsonWriter {
 public:
  JsonWriter(TextBuilder& out, Runtime& runtime, const JsonStyle& style)
      : out_(out), runtime_(runtime), style_(style) {}

  void write(const Value& value) {
    const DepthGuard guard(runtime_);
    runtime_.step();
    switch (value.type()) {
      case Type::kNone:
        out_.append("null");
        return;
      case Type::kBool:
      case Type::kInt:
      case Type::kFloat:
        out_.append(json_number(value));
        return;
      case Type::kString:
        append_json_string(out_, runtime_, value.text(), style_.ascii);
        return;
      case Type::kList:
      case Type::kTuple:
        write_list(value.items());
        return;
      case Type::kDict:
        write_dict(value.dict());
        return;
      default:
        runtime_.type_error(std::string("Object of type ") + type_name(value) +
                            " is not JSON serializable");
    }
  }

 private:
  void new_line() {
    if (!style_.pretty) return;
    out_.append('\n');
    out_.repeat(style_.indent, level_);
  }

  void write_list(const std::vector<Value>& items) {
    if (items.empty()) {
      out_.append("[]");
      return;
    }
    out_.append('[');
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line();
      write(items[i]);
    }
    --level_;
    new_line();
    out_.append(']');
  }

  void write_key(const Value& key) {
    if (key.is_string()) {
      append_json_string(out_, runtime_, key.text(), style_.ascii);
    } else if (key.is_number() || key.is_none()) {
      out_.append('"').append(key.is_none() ? "null" : json_number(key)).append('"');
    } else {
      runtime_.type_error(std::string("keys must be str, int, float, bool or None, not ") +
                          type_name(key));
    }
  }

  void write_dict(const DictObject& dict) {
    if (dict.entries.empty()) {
      out_.append("{}");
      return;
    }
    std::vector<size_t> order(dict.entries.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return less(runtime_, dict.entries[a].first, dict.entries[b].first);
      });
    }
    out_.append('{');
    ++level_;
    for (size_t i = 0; i < order.size(); ++i) {
      const auto& [key, value] = dict.entries[order[i]];
      if (i > 0) out_.append(style_.item_separator);
      new_line();
      write_key(key);
      out_.append(style_.key_separator);
      write(value);
    }
    --level_;
    new_line();
    out_.append('}');
  }

  TextBuilder& out_;
  Runtime& runtime_;
  const JsonStyle& style_;
  size_t level_ = 0;
};

}  // namespace

void append_json(TextBuilder& out, Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter(out, runtime, style).write(value);
}

}  // namespace fathom::jinja
