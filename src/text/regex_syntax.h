// The syntax tree of a regular expression, and the parser that makes it from Oniguruma's notation.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "text/code_set.h"

namespace fathom {

constexpr uint32_t kUnbounded = UINT32_MAX;

enum class RegexKind {
  kSet,     // one character of `set`
  kConcat,  // all kids in turn; none = the empty match
  kAlt,     // the first kid that leads to a match
  kRepeat,  // kids[0], min to max times, greedy or lazy
  kAtomic,  // kids[0] without going back into it
  kLook,    // kids[0] ahead of here or ending here, or not (`negative`)
  kAssert,  // a place, `place`
};

enum class RegexPlace {
  kTextBegin,
  kTextEnd,
  kTextEndOrLastNewline,
  kLineBegin,
  kLineEnd,
  kWordBorder,
  kNoWordBorder
};

// A node owns its kids.
struct RegexNode {
  RegexKind kind = RegexKind::kConcat;
  CodeSet set;
  std::vector<std::unique_ptr<RegexNode>> kids;
  uint32_t min = 0;
  uint32_t max = 0;
  bool lazy = false;
  bool ahead = true;
  bool negative = false;
  RegexPlace place = RegexPlace::kTextBegin;
};
using RegexNodePtr = std::unique_ptr<RegexNode>;

RegexNodePtr regex_set(CodeSet set);
RegexNodePtr regex_repeat(RegexNodePtr kid, uint32_t min, uint32_t max);
RegexNodePtr regex_alt(std::vector<RegexNodePtr> kids);
RegexNodePtr regex_literal(std::string_view text);  // valid UTF-8

// Parses the notation of Oniguruma (the library's default syntax), which tokenizer.json is written
// in: (?m) is "dot matches newline", ^ and $ are line anchors, \h is a hexadecimal digit. What is
// not supported (backreferences, \X, \K, \G, conditionals, absent operators) is refused by name.
Result<RegexNodePtr> parse_regex(std::string_view pattern);

}  // namespace fathom
