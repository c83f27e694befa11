// Checks a JSON schema before it is compiled: its size, and that all it demands can be held.
#pragma once

#include <string_view>

#include "core/status.h"

namespace fathom {

// Limits that bound the time and memory of a compilation.
struct SchemaLimits {
  static constexpr size_t kMaxBytes = 256 << 10;      // of a schema's text
  static constexpr size_t kMaxValues = 10'000;        // JSON values in it
  static constexpr size_t kMaxSchemas = 2'000;        // objects among them that are schemas
  static constexpr size_t kMaxDepth = 64;             // of nesting
  static constexpr size_t kMaxPattern = 512;          // bytes of a regular expression
  static constexpr int64_t kMaxPatternSteps = 4'000;  // what it unfolds to: {n} counts n-fold
  static constexpr int64_t kMaxCount = 100'000;       // minLength, maxItems, ...
  static constexpr size_t kMaxTools = 128;
};

// Accepts what the compiled grammar will hold in full. Refuses keywords that constrain and cannot
// be enforced (not, if, uniqueItems, ...), remote references, and what exceeds SchemaLimits.
Status check_schema(std::string_view schema);
Status check_pattern(std::string_view pattern);

}  // namespace fathom
