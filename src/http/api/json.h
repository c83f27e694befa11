// JSON as the API reads and writes it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/status.h"

namespace fathom::api {

using Json = nlohmann::ordered_json;  // keeps the order of keys, which templates print

// A request's body. Of keys that occur twice the last wins, as in Python and JavaScript. An error
// says what is wrong and at which byte. Nesting and keys are bounded (core/json_shape.h).
Result<Json> parse_json(std::string_view text);

// On one line. Bytes that are no UTF-8 become U+FFFD. A float is written so that reading it back
// as a double, then as a float, gives its very bits.
std::string dump(const Json& value);

const char* type_in_words(const Json& value);  // "a string", "null", ...

}  // namespace fathom::api
