// Set operations on code points, and the decoder of the generated Unicode tables.
#include "text/code_set.h"

#include <utf8proc.h>

#include <algorithm>
#include <string>

namespace fathom {
namespace {

#include "text/unicode_tables.inc"

constexpr std::pair<const char*, const char*> kLongCategoryNames[] = {
    {"letter", "L"},
    {"mark", "M"},
    {"number", "N"},
    {"punctuation", "P"},
    {"symbol", "S"},
    {"separator", "Z"},
    {"other", "C"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
    {"surrogate", "Cs"},
    {"alpha", "alphabetic"},
    {"lower", "lowercase"},
    {"upper", "uppercase"},
    {"space", "whitespace"},
    {"digit", "Nd"},
};

// Numbers of the tables: base 32, low digit first, + 32 while more follow; '~' is the backslash.
uint32_t read_number(const char*& at) {
  uint32_t value = 0;
  for (int shift = 0;; shift += 5) {
    const char c = *at++;
    const uint32_t digit = static_cast<uint32_t>(c == '~' ? '\\' : c) - 48;
    value |= (digit & 31) << shift;
    if (digit < 32) return value;
  }
}

// All categories whose name starts with `prefix` ("L" or "Lu").
CodeSet category_set(std::string_view prefix) {
  std::vector<CodeSet::Range> ranges;
  uint32_t start = 0;
  for (const char* at = kCategoryRuns; *at != '\0';) {
    const std::string_view name = kCategoryNames[*at++ - 'a'];
    const uint32_t last = start + read_number(at);
    if (name.substr(0, prefix.size()) == prefix) ranges.emplace_back(start, last);
    start = last + 1;
  }
  return CodeSet(std::move(ranges));
}

CodeSet decode_ranges(const char* at) {
  std::vector<CodeSet::Range> ranges;
  uint32_t next = 0;
  while (*at != '\0') {
    const uint32_t first = next + read_number(at);
    const uint32_t last = first + read_number(at);
    ranges.emplace_back(first, last);
    next = last + 1;
  }
  return CodeSet(std::move(ranges));
}

CodeSet named_set(std::string_view name) {
  for (const auto& entry : kNamedSets) {
    if (name == entry.name) return decode_ranges(entry.ranges);
  }
  return {};
}

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == '_' || c == '-' || c == ' ') continue;
    plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return plain;
}

// Groups of code points that are equal but for case: (folded, code), sorted, groups of two or more.
std::vector<std::pair<uint32_t, uint32_t>> make_case_groups() {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  constexpr uint32_t kEndOfCasedScripts = 0x20000;
  for (uint32_t code = 0; code < kEndOfCasedScripts; ++code) {
    // Dotted capital I and dotless i fold to something else than their simple case pairs.
    if (code == 0x130 || code == 0x131 || (code >= 0xD800 && code < 0xE000)) continue;
    const auto c = static_cast<utf8proc_int32_t>(code);
    const auto folded = static_cast<uint32_t>(utf8proc_tolower(utf8proc_toupper(c)));
    const auto lower = static_cast<uint32_t>(utf8proc_tolower(c));
    if (folded != code || lower != code || utf8proc_toupper(c) != c)
      pairs.emplace_back(folded, code);
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// (code, lower case), sorted.
std::vector<std::pair<uint32_t, uint32_t>> decode_lowercase() {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  uint32_t first = 0;
  for (const char* at = kLowercaseRuns; *at != '\0';) {
    first += read_number(at);
    const uint32_t count = read_number(at) + 1;
    const uint32_t step = read_number(at);
    const uint32_t zigzag = read_number(at);
    const uint32_t distance = zigzag % 2 == 0 ? zigzag / 2 : 0u - (zigzag + 1) / 2;
    for (uint32_t i = 0; i < count; ++i) {
      pairs.emplace_back(first + i * step, first + i * step + distance);
    }
  }
  return pairs;
}

}  // namespace

void CodeSet::normalize() {
  std::sort(ranges_.begin(), ranges_.end());
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, range.second);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
}

bool CodeSet::contains(uint32_t code) const {
  auto after = std::upper_bound(ranges_.begin(), ranges_.end(), code,
                                [](uint32_t c, const Range& range) { return c < range.first; });
  return after != ranges_.begin() && code <= std::prev(after)->second;
}

CodeSet CodeSet::operator|(const CodeSet& other) const {
  std::vector<Range> ranges = ranges_;
  ranges.insert(ranges.end(), other.ranges_.begin(), other.ranges_.end());
  return CodeSet(std::move(ranges));
}

CodeSet CodeSet::operator&(const CodeSet& other) const {
  return ~(~*this | ~other);
}

CodeSet CodeSet::operator~() const {
  CodeSet result;
  uint32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) result.ranges_.emplace_back(next, range.first - 1);
    next = range.second + 1;
  }
  if (next <= kMaxCodePoint) result.ranges_.emplace_back(next, kMaxCodePoint);
  return result;
}

CodeSet CodeSet::case_closure() const {
  static const std::vector<std::pair<uint32_t, uint32_t>> groups = make_case_groups();
  std::vector<Range> ranges = ranges_;
  for (size_t begin = 0, end = 0; begin < groups.size(); begin = end) {
    bool any = false;
    for (end = begin; end < groups.size() && groups[end].first == groups[begin].first; ++end) {
      any = any || contains(groups[end].second);
    }
    for (size_t i = begin; any && i < end; ++i) {
      ranges.emplace_back(groups[i].second, groups[i].second);
    }
  }
  return CodeSet(std::move(ranges));
}

std::optional<CodeSet> unicode_property(std::string_view name) {
  const std::string plain = plain_name(name);
  std::string_view key = plain;
  if (key == "any") return CodeSet::all();
  if (key == "assigned") return ~category_set("Cn");
  if (key == "ascii") return CodeSet({{0, 0x7F}});
  if (key == "lc") return category_set("Lu") | category_set("Ll") | category_set("Lt");
  for (const auto& [long_name, short_name] : kLongCategoryNames) {
    if (key == long_name) key = short_name;
  }
  const std::string category = plain_name(key);
  for (const char* known : kCategoryNames) {
    if (category == plain_name(known)) return category_set(known);
    if (category == plain_name(std::string_view(known, 1))) {
      return category_set(std::string_view(known, 1));
    }
  }
  if (key == "w" || key == "normalizing" || key.substr(0, 4) == "rust")
    return std::nullopt;  // not names of properties
  for (const auto& entry : kNamedSets) {
    if (key == entry.name) return decode_ranges(entry.ranges);
  }
  return std::nullopt;
}

uint32_t rust_lowercase(uint32_t code) {
  static const auto pairs = decode_lowercase();
  const auto found = std::lower_bound(pairs.begin(), pairs.end(), std::pair(code, 0u));
  return found != pairs.end() && found->first == code ? found->second : code;
}

const CodeSet& white_space_set() {
  static const CodeSet set = named_set("whitespace");
  return set;
}
const CodeSet& word_set() {
  static const CodeSet set = named_set("w");
  return set;
}
const CodeSet& class_word_set() {
  static const CodeSet set = word_set() & ~CodeSet({{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}});
  return set;
}
const CodeSet& normalizing_set() {
  static const CodeSet set = named_set("normalizing");
  return set;
}
const CodeSet& rust_word_set() {
  static const CodeSet set = named_set("rustword");
  return set;
}
const CodeSet& rust_numeric_set() {
  static const CodeSet set = named_set("rustnumeric");
  return set;
}
const CodeSet& rust_punctuation_set() {
  static const CodeSet set = named_set("rustpunctuation");
  return set;
}

}  // namespace fathom
