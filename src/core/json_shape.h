// Bounds on a JSON text before a library builds a tree from it.
#pragma once

#include <string_view>

#include "core/status.h"

namespace fathom {

// Refuses a text whose arrays and objects are nested deeper than 256 or that has an object with
// more than 10,000 keys: trees are copied recursively, and ordered objects look keys up one by one.
// Linear in the text; says nothing about whether it is JSON otherwise.
Status check_json_shape(std::string_view text);

}  // namespace fathom
