// Parses escapes and character classes of Oniguruma's regular expressions.
#include "text/regex_class_parser.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace fathom {
namespace {

constexpr int kMaxDepth = 64;

int digit_value(uint32_t c) {
  if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A') + 10;
  return 99;
}

// After \p or \P.
Result<CodeSet> property(RegexInput& in, bool negative, bool in_class) {
  std::string_view name;
  if (!in.take('{') || !in.until('}', name)) return in.fail("has \\p without {a name}");
  if (!name.empty() && name.front() == '^') {
    negative = !negative;
    name.remove_prefix(1);
  }
  std::optional<CodeSet> set = unicode_property(name);
  if (!set) {
    return in.fail("uses the character property \"" + std::string(name) + "\", which is not known");
  }
  if (in_class && *set == word_set()) set = class_word_set();
  return negative ? ~*set : std::move(*set);
}

// A code point given by number: \xHH, \x{H..}, \uHHHH, \UHHHHHHHH, \o{..}, octal.
Result<CodeSet> numbered(RegexInput& in, uint32_t kind) {
  uint32_t code = 0;
  bool good = false;
  if (kind == 'x' || kind == 'o') {
    const uint32_t base = kind == 'x' ? 16 : 8;
    good = in.take('{') ? in.digits(base, 11, code) && in.take('}')
                        : kind == 'x' && in.digits(16, 2, code) && code < 0x80;
  } else if (kind == '0') {
    good = in.digits(8, 2, code) || true;
  } else {
    good = in.digits(16, kind == 'u' ? 4 : 8, code);
  }
  if (!good || code > kMaxCodePoint || (code >= 0xD800 && code < 0xE000)) {
    return in.fail("names a character by a number that is not one");
  }
  return CodeSet::of(code);
}

// One item of a class: a single character, or a set that cannot start a range.
struct Item {
  CodeSet set;
  std::optional<uint32_t> single;
};

class ClassParser {
 public:
  ClassParser(RegexInput& in, bool ignore_case) : in_(in), ignore_case_(ignore_case) {}

  // `outermost`: case is ignored only once all is put together.
  Result<CodeSet> parse(int depth, bool outermost) {
    if (depth > kMaxDepth) return in_.fail("is nested too deeply");
    const bool negative = in_.take('^');
    std::optional<CodeSet> left;  // of &&
    std::vector<CodeSet::Range> ranges;
    for (bool first = true;; first = false) {
      if (in_.done()) return in_.fail("has a character class that is never closed");
      if (!first && in_.take(']')) break;
      if (in_.take(std::string_view("&&"))) {
        const CodeSet right(std::exchange(ranges, {}));
        left = left ? *left & right : right;
        continue;
      }
      FATHOM_ASSIGN(Item item, next_item(depth));
      FATHOM_ASSIGN(CodeSet found, with_range(std::move(item)));
      ranges.insert(ranges.end(), found.ranges().begin(), found.ranges().end());
    }
    CodeSet set(std::move(ranges));
    if (left) set = *left & set;
    if (ignore_case_ && outermost) set = set.case_closure();
    return negative ? ~set : set;
  }

 private:
  Result<Item> next_item(int depth) {
    if (in_.take(std::string_view("[:"))) return posix();
    if (in_.take('[')) {
      FATHOM_ASSIGN(CodeSet set, parse(depth + 1, false));
      return Item{std::move(set), std::nullopt};
    }
    if (!in_.take('\\')) {
      const uint32_t code = in_.next();
      return Item{CodeSet::of(code), code};
    }
    if (in_.done()) return in_.fail("ends in a backslash");
    if (in_.take('b')) return Item{CodeSet::of('\b'), '\b'};
    FATHOM_ASSIGN(CodeSet set, parse_regex_escape(in_, true));
    std::optional<uint32_t> single;
    if (set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].second) {
      single = set.ranges()[0].first;
    }
    return Item{std::move(set), single};
  }

  Result<Item> posix() {
    std::string_view name;
    if (!in_.until(':', name) || !in_.take(']')) {
      return in_.fail("has a [:class:] that is never closed");
    }
    const bool negative = !name.empty() && name.front() == '^';
    if (negative) name.remove_prefix(1);
    std::optional<CodeSet> set = unicode_property(name);
    if (name == "punct") set = *unicode_property("P") | *unicode_property("S");
    if (name == "word") set = class_word_set();
    if (!set) return in_.fail("uses the class [:" + std::string(name) + ":], which is not known");
    return Item{negative ? ~*set : std::move(*set), std::nullopt};
  }

  // Takes "-x" after an item where it makes a range; a '-' before the end is a literal.
  Result<CodeSet> with_range(Item item) {
    const size_t start = in_.mark();
    if (!in_.take('-')) return std::move(item.set);
    if (in_.done() || in_.peek() == ']' || in_.peek() == '[' || in_.take(std::string_view("&&"))) {
      in_.reset(start);
      return std::move(item.set);
    }
    if (!item.single) return in_.fail("has a range that starts with a class of characters");
    FATHOM_ASSIGN(Item last, next_item(0));
    if (!last.single) return in_.fail("has a range that ends with a class of characters");
    if (*last.single < *item.single) return in_.fail("has a range from high to low");
    return CodeSet({{*item.single, *last.single}});
  }

  RegexInput& in_;
  bool ignore_case_;
};

}  // namespace

bool RegexInput::number(uint32_t& value) {
  const size_t start = at_;
  uint32_t result = 0;
  while (!done() && peek() >= '0' && peek() <= '9') {
    result = std::min<uint32_t>(result * 10 + (next() - '0'), 1000000);
  }
  if (at_ != start) value = result;
  return at_ != start;
}

bool RegexInput::digits(uint32_t base, int max_digits, uint32_t& value) {
  int count = 0;
  uint64_t result = 0;
  while (count < max_digits && !done() && digit_value(peek()) < static_cast<int>(base)) {
    result =
        std::min<uint64_t>(result * base + static_cast<uint64_t>(digit_value(next())), UINT32_MAX);
    ++count;
  }
  value = static_cast<uint32_t>(result);
  return count > 0;
}

bool RegexInput::until(char end, std::string_view& text) {
  const size_t found = pattern_.find(end, at_);
  if (found == std::string_view::npos) return false;
  text = pattern_.substr(at_, found - at_);
  at_ = found + 1;
  return true;
}

tl::unexpected<Status> RegexInput::fail(const std::string& what) const {
  constexpr size_t kShown = 80;
  std::string shown(pattern_.substr(0, kShown - unfinished_utf8_tail(pattern_.substr(0, kShown))));
  if (pattern_.size() > kShown) shown += "...";
  return error(Code::kUnsupported, "the regular expression " + shown + " " + what + " (at byte " +
                                       std::to_string(at_) + ")");
}

Result<CodeSet> parse_regex_escape(RegexInput& in, bool in_class) {
  const uint32_t c = in.next();
  switch (c) {
    case 't':
      return CodeSet::of('\t');
    case 'n':
      return CodeSet::of('\n');
    case 'r':
      return CodeSet::of('\r');
    case 'f':
      return CodeSet::of('\f');
    case 'v':
      return CodeSet::of('\v');
    case 'a':
      return CodeSet::of('\a');
    case 'e':
      return CodeSet::of(0x1B);
    case 'd':
      return *unicode_property("Nd");
    case 'D':
      return ~*unicode_property("Nd");
    case 's':
      return white_space_set();
    case 'S':
      return ~white_space_set();
    case 'w':
      return in_class ? class_word_set() : word_set();
    case 'W':
      return ~(in_class ? class_word_set() : word_set());
    case 'h':
      return *unicode_property("XDigit");
    case 'H':
      return ~*unicode_property("XDigit");
    case 'p':
      return property(in, false, in_class);
    case 'P':
      return property(in, true, in_class);
    case 'x':
    case 'o':
    case 'u':
    case 'U':
    case '0':
      return numbered(in, c);
    default:
      break;
  }
  const bool letter_or_digit =
      (c >= '1' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  if (letter_or_digit) {
    return in.fail(std::string("uses \\") + static_cast<char>(c) + ", which is not supported");
  }
  return CodeSet::of(c);
}

Result<CodeSet> parse_regex_class(RegexInput& in, bool ignore_case, int depth) {
  return ClassParser(in, ignore_case).parse(depth, true);
}

}  // namespace fathom
