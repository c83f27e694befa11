// Reads JSON by events, without building a tree: bounded depth and size, duplicate keys noticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/status.h"

namespace fathom {

// A string, number, boolean or null in a JSON text.
struct JsonScalar {
  enum class Kind { kNull, kBool, kUnsigned, kNegative, kFraction, kString };
  Kind kind = Kind::kNull;
  uint64_t number = 0;  // kUnsigned only
  std::string text;     // kString only
};

// Receives the events of one parse. `path` has the key of every open object ("" for an open array).
// A function that returns false ends the parse; it must have called fail() before.
class JsonVisitor {
 public:
  using Path = std::vector<std::string>;
  virtual ~JsonVisitor() = default;
  virtual bool scalar(const Path& path, JsonScalar value) = 0;
  virtual bool begin(const Path& path, bool array) = 0;  // of an object or array at `path`
  virtual bool end(const Path& path) = 0;
  virtual bool duplicate_key(const Path& path) = 0;  // the last key of `path` came before

  bool fail(std::string why) {
    why_ = std::move(why);
    return false;
  }
  const std::string& why() const { return why_; }

 private:
  std::string why_;
};

// Objects and arrays may be nested `max_depth` deep; an object may have 2^20 keys.
// An error says what is wrong and at which byte, but not in which file.
Status visit_json(std::string_view text, size_t max_depth, JsonVisitor& visitor);

}  // namespace fathom
