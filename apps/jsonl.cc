// Reads lines of JSON from standard input and writes one answer line each.
#include "apps/jsonl.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>

#include "apps/commands.h"
#include "apps/console.h"

namespace fathom::apps {
namespace {

constexpr size_t kMaxLine = size_t{64} << 20;  // bytes; more than any context holds
constexpr int kMaxDepth = 256;                 // JSON values are copied and printed recursively

// Splits standard input into lines as bytes arrive. A line that is too long is skipped to its end.
class LineReader {
 public:
  struct Line {
    std::string text;
    bool too_long = false;
  };

  // nullopt at the end of input. The last line needs no line end.
  std::optional<Line> next() {
    Line line;
    bool any = false;
    while (true) {
      if (at_ == filled_) {
        const ssize_t count = read_some();
        if (count <= 0) return any ? std::optional<Line>(std::move(line)) : std::nullopt;
        at_ = 0;
        filled_ = static_cast<size_t>(count);
      }
      any = true;
      const char* begin = buffer_ + at_;
      const char* end = std::find(begin, static_cast<const char*>(buffer_ + filled_), '\n');
      const size_t count = static_cast<size_t>(end - begin);
      if (line.text.size() + count > kMaxLine) {
        line.too_long = true;
        line.text = std::string();
      } else if (!line.too_long) {
        line.text.append(begin, count);
      }
      at_ += count;
      if (at_ < filled_) {
        ++at_;
        return line;
      }
    }
  }

 private:
  ssize_t read_some() {
    ssize_t count = 0;
    do {
      count = ::read(STDIN_FILENO, buffer_, sizeof buffer_);
    } while (count < 0 && errno == EINTR);
    return count;
  }

  char buffer_[1 << 16];
  size_t at_ = 0, filled_ = 0;
};

// The deepest nesting of arrays and objects, without parsing: brackets inside strings don't count.
int nesting_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

// What the JSON library says, without its prefix and without the rest of a huge token.
std::string parser_message(std::string_view what) {
  constexpr size_t kLongest = 200;
  if (const size_t end = what.find("] "); what.front() == '[' && end != std::string_view::npos) {
    what.remove_prefix(end + 2);
  }
  return std::string(what.substr(0, kLongest)) + (what.size() > kLongest ? "..." : "");
}

Result<Json> answer(const LineReader::Line& line, const LineHandler& handler) {
  if (line.too_long) {
    return error(Code::kInvalidArgument,
                 fmt::format("The line is longer than {}.", human_bytes(kMaxLine)));
  }
  FATHOM_ASSIGN(const Json value, parse_json_line(line.text));
  return handler(value);
}

}  // namespace

Result<Json> parse_json_line(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
    return error(Code::kInvalidArgument, "The line is empty; a JSON value was expected.");
  }
  if (nesting_depth(line) > kMaxDepth) {
    return error(Code::kInvalidArgument,
                 fmt::format("The JSON is nested deeper than {} levels.", kMaxDepth));
  }
  try {
    return Json::parse(line);
  } catch (const nlohmann::json::exception& e) {
    return error(Code::kInvalidArgument,
                 fmt::format("The line is not JSON: {}.", parser_message(e.what())));
  }
}

int run_jsonl(const LineHandler& handler) {
  LineReader reader;
  int64_t number = 0, failed = 0;
  while (std::optional<LineReader::Line> line = reader.next()) {
    ++number;
    Result<Json> result = answer(*line, handler);
    if (!result) {
      ++failed;
      result = Json{{"error", fmt::format("Line {}: {}", number, result.error().message())}};
    }
    print_json(*result);
    flush_output();
  }
  if (failed == 0) return kExitOk;
  note(fmt::format("error: {} of {} lines could not be answered (see \"error\" in the output).",
                   failed, number));
  return kExitFailure;
}

Result<Fields> Fields::open(const Json& object, std::initializer_list<std::string_view> known) {
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
      return error(Code::kInvalidArgument,
                   fmt::format("Unknown key \"{}\"; known are: {}.", item.key(),
                               fmt::join(known.begin(), known.end(), ", ")));
    }
  }
  return Fields(object);
}

const Json* Fields::find(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

Result<bool> Fields::boolean(std::string_view key, bool fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    return error(Code::kInvalidArgument, fmt::format("\"{}\" must be true or false.", key));
  }
  return value->get<bool>();
}

}  // namespace fathom::apps
