// Counts nesting and keys of a JSON text.
#include "core/json_shape.h"

#include <vector>

namespace fathom {

Status check_json_shape(std::string_view text) {
  constexpr size_t kMaxDepth = 256;
  constexpr size_t kMaxKeys = 10000;
  std::vector<size_t> keys;  // of each open array or object
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++i;
      continue;
    }
    if (c == '[' || c == '{') {
      keys.push_back(0);
      if (keys.size() > kMaxDepth) {
        return Status(Code::kInvalidArgument, "The JSON text is nested deeper than 256.");
      }
    } else if ((c == ']' || c == '}') && !keys.empty()) {
      keys.pop_back();
    } else if (c == ':' && !keys.empty() && ++keys.back() > kMaxKeys) {
      return Status(Code::kInvalidArgument,
                    "The JSON text has an object with more than 10,000 keys.");
    }
  }
  return Status();
}

}  // namespace fathom
