// Number and string literals of template code.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace fathom::jinja {

struct NumberLiteral {
  size_t size = 0;  // bytes; 0: no number here
  bool is_float = false;
  bool too_large = false;
  Value value;
};
NumberLiteral scan_number(std::string_view text, size_t at);

struct UnescapeError {
  const char* message = nullptr;  // nullptr: fine
  bool unsupported = false;
};
// Decodes the inside of a string literal as Python's unicode-escape codec does.
UnescapeError unescape(std::string_view text, std::string& out);

}  // namespace fathom::jinja
