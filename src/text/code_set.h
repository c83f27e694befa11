// CodeSet: a set of Unicode code points, and the named sets that tokenizers are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom {

constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// Sorted, disjoint, non-adjacent ranges [first, last] of code points. A plain value.
class CodeSet {
 public:
  using Range = std::pair<uint32_t, uint32_t>;

  CodeSet() = default;
  explicit CodeSet(std::vector<Range> ranges) : ranges_(std::move(ranges)) { normalize(); }
  static CodeSet of(uint32_t code) { return CodeSet({{code, code}}); }
  static CodeSet all() { return CodeSet({{0, kMaxCodePoint}}); }

  const std::vector<Range>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(uint32_t code) const;
  CodeSet operator|(const CodeSet& other) const;
  CodeSet operator&(const CodeSet& other) const;
  CodeSet operator~() const;
  bool operator==(const CodeSet& other) const { return ranges_ == other.ranges_; }
  // With every code point that differs from a member only by case (simple case folding).
  CodeSet case_closure() const;

 private:
  void normalize();
  std::vector<Range> ranges_;
};

// The set of a Unicode property as Oniguruma names it: a general category ("L", "Lu", "Letter"), a
// script ("Han") or a class ("Alphabetic", "Punct", "Word"); case, '_', '-' and spaces do not
// count.
std::optional<CodeSet> unicode_property(std::string_view name);

const CodeSet& white_space_set();  // \s, and what Rust calls white space
const CodeSet& word_set();         // \w of Oniguruma outside of classes; it has ² ³ ¹ ¼ ½ ¾
const CodeSet& class_word_set();   // \w inside of [classes]; it has not
// What the library's normal forms know: all else stays as it is and combines with nothing.
const CodeSet& normalizing_set();
// The lower case of a code point if that is a single one, as in Rust; else the code point itself.
uint32_t rust_lowercase(uint32_t code);
const CodeSet& rust_word_set();         // \w of Rust's regexes
const CodeSet& rust_numeric_set();      // char::is_numeric
const CodeSet& rust_punctuation_set();  // the library's own idea of punctuation (Unicode 8)

}  // namespace fathom
