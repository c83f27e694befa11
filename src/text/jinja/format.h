// Python's two ways of formatting: "%s" % x and "{}".format(x).
#pragma once

#include "text/jinja/runtime.h"

namespace fathom::jinja {

// A parsed format specification; both languages share it.
struct FormatSpec {
  char32_t fill = ' ';
  char align = 0;   // '<', '>', '^', '=' or 0
  char sign = '-';  // '+', '-', ' '
  bool alternate = false;
  bool zero = false;
  char grouping = 0;  // ',' or '_'
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

Value format_percent(Runtime& runtime, const Value& format, const Value& argument);
// str.format(*args, **kwargs); `mapping` is str.format_map's argument or missing.
Value format_braces(Runtime& runtime, const Value& format, const Args& args, const Value& mapping);
// The number in the notation of spec.type ('e', 'f', 'g', '%', 'd', 'x', …), signed, ungrouped
// width.
void append_number(TextBuilder& out, Runtime& runtime, const Value& value, const FormatSpec& spec);
void append_padded(TextBuilder& out, std::string_view text, const FormatSpec& spec,
                   char default_align);

}  // namespace fathom::jinja
