// Normalizer: what a tokenizer does to a text before it looks for words.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "text/regex.h"

namespace fathom {

// A text as code points, with where each begins in its UTF-8.
struct CodePoints {
  explicit CodePoints(std::string_view text);  // valid UTF-8, less than 4 GiB
  std::vector<uint32_t> codes;                 // [count]
  std::vector<uint32_t> offsets;               // [count + 1]
  size_t count() const { return codes.size(); }
};

// Either a literal or a regular expression: {"String": ...} or {"Regex": ...}.
Result<Regex> read_pattern(const nlohmann::json& component, const std::string& where);

// A list of steps, in the order of tokenizer.json; immutable.
class Normalizer {
 public:
  // null gives the normalizer that changes nothing.
  static Result<Normalizer> read(const nlohmann::json& component);

  bool empty() const { return steps_.empty(); }
  bool has_byte_level() const;
  // `text` and the result are valid UTF-8.
  Status apply(std::string& text) const;

 private:
  struct Unicode {
    bool compose;
    bool compatible;
  };
  struct Strip {
    bool left;
    bool right;
  };
  enum class Kind { kUnicode, kLowercase, kByteLevel, kPrepend, kStrip, kReplace };
  struct Step {
    Kind kind;
    Unicode form{};                          // kUnicode
    Strip sides{};                           // kStrip
    std::string text;                        // kPrepend, kReplace: what is put in
    std::unique_ptr<const Regex> pattern{};  // kReplace
  };

  Status add(const nlohmann::json& component, const std::string& where, int depth);
  static Result<Step> read_step(const nlohmann::json& component, const std::string& type,
                                const std::string& where);
  static void normalize(const Unicode& form, std::string& text);
  static void lowercase(std::string& text);
  static void strip(const Strip& sides, std::string& text);
  static Status replace(const Step& step, std::string& text);

  std::vector<Step> steps_;
};

}  // namespace fathom
