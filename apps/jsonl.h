// The line protocol of tokenize, detokenize and render: one JSON value in, one JSON line out.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "core/status.h"

namespace fathom::apps {

using Json = nlohmann::ordered_json;  // keeps the order of keys, which templates print

// Answers one value. A failure becomes the line {"error": ...} with the line's number in it.
using LineHandler = std::function<Result<Json>(const Json& value)>;

// Reads standard input to its end and writes exactly one line for each line, flushed at once, so
// that a program may talk through two pipes. Lines that are no JSON, too long or too deeply nested
// are answered with an error too. Returns kExitOk, or kExitFailure if any line failed.
int run_jsonl(const LineHandler& handler);

// Parses one line: at most kMaxDepth arrays and objects inside one another.
Result<Json> parse_json_line(std::string_view line);

// Reads fields of an object line and refuses those it does not know.
class Fields {
 public:
  // `known`: all keys the form has.
  static Result<Fields> open(const Json& object, std::initializer_list<std::string_view> known);
  const Json* find(std::string_view key) const;  // nullptr if absent or null
  Result<bool> boolean(std::string_view key, bool fallback) const;

 private:
  explicit Fields(const Json& object) : object_(&object) {}
  const Json* object_;
};

}  // namespace fathom::apps
