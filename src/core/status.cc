// Names of status codes.
#include "core/status.h"

namespace fathom {

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kOutOfMemory:
      return "out_of_memory";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kCancelled:
      return "cancelled";
    case Code::kInternal:
      return "internal";
    case Code::kTimeout:
      return "timeout";
  }
  return "unknown";
}

}  // namespace fathom
