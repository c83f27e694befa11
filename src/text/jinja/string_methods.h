// Pieces of str's methods that filters share.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/jinja/runtime.h"

namespace fathom::jinja {

struct Replacement {
  std::string_view from, to;
  int64_t most;  // negative: all
};
void append_replaced(TextBuilder& out, Runtime& runtime, std::string_view text,
                     const Replacement& replacement);

// The text of a string argument; TypeError otherwise.
std::string_view string_argument(Runtime& runtime, const Value& value, std::string_view function);

Function find_string_form_method(std::string_view name);  // case, classes, padding, formatting

}  // namespace fathom::jinja
