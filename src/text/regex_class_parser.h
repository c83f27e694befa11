// The parts of regular expressions that stand for one character: escapes and [classes].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.h"
#include "text/code_set.h"
#include "text/utf8.h"

namespace fathom {

// Reads a pattern (valid UTF-8) code point by code point.
class RegexInput {
 public:
  explicit RegexInput(std::string_view pattern) : pattern_(pattern) {}

  bool done() const { return at_ == pattern_.size(); }
  uint32_t peek() const { return decode_utf8(pattern_.substr(at_)).code; }  // not at the end
  uint32_t next() {
    const Utf8Step step = decode_utf8(pattern_.substr(at_));
    at_ += step.size;
    return step.code;
  }
  bool take(uint32_t code) {
    if (done() || peek() != code) return false;
    next();
    return true;
  }
  bool take(std::string_view text) {
    if (pattern_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  // A decimal number, saturating.
  bool number(uint32_t& value);
  // Up to `max_digits` digits of base 8 or 16, at least one.
  bool digits(uint32_t base, int max_digits, uint32_t& value);
  // What follows up to `end`, which is taken too.
  bool until(char end, std::string_view& text);
  size_t mark() const { return at_; }
  void reset(size_t mark) { at_ = mark; }

  tl::unexpected<Status> fail(const std::string& what) const;

 private:
  std::string_view pattern_;
  size_t at_ = 0;
};

// After a backslash: the characters the escape stands for, which for \w differs inside of classes.
Result<CodeSet> parse_regex_escape(RegexInput& in, bool in_class);
// After "[": the class up to its "]". `depth` counts the brackets and parentheses around it.
Result<CodeSet> parse_regex_class(RegexInput& in, bool ignore_case, int depth);

}  // namespace fathom
