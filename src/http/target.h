// Request targets: the path and query of a request line, decoded.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/status.h"

namespace fathom {

struct Target {
  std::string path;  // decoded; "*" for the whole server
  std::map<std::string, std::string> query;
};

// Takes the origin form (/path?query), the absolute form (http://host/path?query) and "*". Refuses
// broken percent escapes and control characters. Dots in paths have no meaning: routes are exact.
Result<Target> parse_target(std::string_view target);

}  // namespace fathom
