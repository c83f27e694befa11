// Python's str(), repr() and json.dumps() of template values.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace fathom::jinja {

std::string int_text(Int value, unsigned base = 10);  // digits in lower case, no prefix
std::string float_text(double value);                 // float.__repr__
void append_str(TextBuilder& out, Runtime& runtime, const Value& value);
void append_repr(TextBuilder& out, Runtime& runtime, const Value& value);
std::string str(Runtime& runtime, const Value& value);
std::string repr(Runtime& runtime, const Value& value);
// str(value), or the value itself if it is a string already (markupsafe.soft_str).
Value soft_string(Runtime& runtime, const Value& value);
std::string repr_text(std::string_view text);  // repr() of a string
void append_escaped_html(TextBuilder& out, std::string_view text);
Value escape_html(Runtime& runtime, const Value& value);  // markupsafe.escape

struct JsonStyle {
  bool ascii = false;
  bool pretty = false;  // an indent was given
  bool sort_keys = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
void append_json(TextBuilder& out, Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace fathom::jinja
