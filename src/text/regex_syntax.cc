// Recursive-descent parser of Oniguruma's regular expressions; groups only group, nothing captures.
#include "text/regex_syntax.h"

#include <utf8proc.h>

#include <algorithm>
#include <string>

#include "text/regex_class_parser.h"
#include "text/utf8.h"

namespace fathom {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxStackedRepeats = 8;
constexpr size_t kMaxPatternBytes = 1 << 16;
constexpr uint32_t kMaxCount = 1000;  // of {n,m}

// Letter sequences that one character folds to when case is ignored (Unicode CaseFolding, F).
bool has_multi_character_folding(uint32_t previous, uint32_t code) {
  const auto lower = [](uint32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; };
  const uint32_t a = lower(previous);
  const uint32_t b = lower(code);
  if ((a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'))) {
    return true;
  }
  // These follow a letter in the long foldings of ẖ ẗ ẘ ẙ ẚ ŉ ǰ and of Greek and Armenian letters.
  if (code == 0x2BE || code == 0x30A || code == 0x30C || code == 0x331 || previous == 0x2BC)
    return true;
  utf8proc_int32_t folded[8];
  int boundary = 0;
  return utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), folded, 8, UTF8PROC_CASEFOLD,
                                 &boundary) > 1;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : in_(pattern) {}

  Result<RegexNodePtr> parse() {
    FATHOM_ASSIGN(RegexNodePtr node, alternation(0));
    if (!in_.done()) return in_.fail("has a closing parenthesis without an opening one");
    return node;
  }

 private:
  struct Flags {
    bool ignore_case = false;
    bool extended = false;
    bool dot_all = false;
  };

  Result<RegexNodePtr> alternation(int depth) {
    if (depth > kMaxDepth) return in_.fail("is nested too deeply");
    std::vector<RegexNodePtr> kids;
    for (;;) {
      FATHOM_ASSIGN(RegexNodePtr kid, concatenation(depth));
      kids.push_back(std::move(kid));
      if (!in_.take('|')) break;
    }
    if (kids.size() == 1) return std::move(kids[0]);
    return regex_alt(std::move(kids));
  }

  Result<RegexNodePtr> concatenation(int depth) {
    auto node = std::make_unique<RegexNode>();
    uint32_t previous = 0;
    for (;;) {
      skip_comments();
      if (in_.done() || in_.peek() == '|' || in_.peek() == ')') return node;
      const uint32_t first = in_.peek();
      FATHOM_ASSIGN(RegexNodePtr kid, atom(depth));
      if (kid == nullptr) continue;  // a comment or a flag
      const bool literal =
          kid->kind == RegexKind::kSet && first != '[' && first != '\\' && first != '.';
      if (flags_.ignore_case && literal && has_multi_character_folding(previous, first)) {
        return in_.fail("ignores case where a character equals several others (such as ß and ss)");
      }
      previous = literal ? first : 0;
      FATHOM_ASSIGN(kid, quantified(std::move(kid)));
      node->kids.push_back(std::move(kid));
    }
  }

  void skip_comments() {
    while (flags_.extended && !in_.done()) {
      if (in_.peek() == '#') {
        while (!in_.done() && in_.next() != '\n') {
        }
      } else if (in_.peek() == ' ' || (in_.peek() >= '\t' && in_.peek() <= '\r')) {
        in_.next();
      } else {
        return;
      }
    }
  }

  Result<RegexNodePtr> atom(int depth) {
    const uint32_t c = in_.next();
    switch (c) {
      case '(':
        return group(depth);
      case '[': {
        FATHOM_ASSIGN(CodeSet set, parse_regex_class(in_, flags_.ignore_case, depth));
        return regex_set(std::move(set));
      }
      case '.':
        return regex_set(flags_.dot_all ? CodeSet::all() : ~CodeSet::of('\n'));
      case '^':
        return place(RegexPlace::kLineBegin);
      case '$':
        return place(RegexPlace::kLineEnd);
      case '*':
      case '+':
      case '?':
        return in_.fail("has a repeat operator that follows nothing");
      case '\\':
        return escape();
      default:
        return one_of(CodeSet::of(c));
    }
  }

  Result<RegexNodePtr> escape() {
    if (in_.done()) return in_.fail("ends in a backslash");
    switch (in_.peek()) {
      case 'b':
        return in_.next(), place(RegexPlace::kWordBorder);
      case 'B':
        return in_.next(), place(RegexPlace::kNoWordBorder);
      case 'A':
        return in_.next(), place(RegexPlace::kTextBegin);
      case 'z':
        return in_.next(), place(RegexPlace::kTextEnd);
      case 'Z':
        return in_.next(), place(RegexPlace::kTextEndOrLastNewline);
      case 'R':
        return in_.next(), line_break();
      case 'N':
        return in_.next(), regex_set(~CodeSet::of('\n'));
      case 'O':
        return in_.next(), regex_set(CodeSet::all());
      default:
        break;
    }
    FATHOM_ASSIGN(CodeSet set, parse_regex_escape(in_, false));
    return one_of(std::move(set));
  }

  // Oniguruma ignores the case of characters, not that of properties.
  Result<RegexNodePtr> one_of(CodeSet set) {
    const bool single = set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].second;
    return regex_set(flags_.ignore_case && single ? set.case_closure() : std::move(set));
  }

  static RegexNodePtr place(RegexPlace where) {
    auto node = std::make_unique<RegexNode>();
    node->kind = RegexKind::kAssert;
    node->place = where;
    return node;
  }

  static RegexNodePtr wrap(RegexKind kind, RegexNodePtr kid) {
    auto node = std::make_unique<RegexNode>();
    node->kind = kind;
    node->kids.push_back(std::move(kid));
    return node;
  }

  // \R: CR LF as one, or any line break.
  static RegexNodePtr line_break() {
    std::vector<RegexNodePtr> kids;
    kids.push_back(regex_literal("\r\n"));
    kids.push_back(regex_set(CodeSet({{0xA, 0xD}, {0x85, 0x85}, {0x2028, 0x2029}})));
    return wrap(RegexKind::kAtomic, regex_alt(std::move(kids)));
  }

  // After "(". Null for what stands for nothing (a comment).
  Result<RegexNodePtr> group(int depth) {
    if (!in_.take('?')) return closed(depth);
    if (in_.take('#')) {
      while (!in_.done() && in_.peek() != ')') in_.next();
      return in_.take(')') ? Result<RegexNodePtr>(RegexNodePtr()) : in_.fail("has an open comment");
    }
    if (in_.take(':')) return closed(depth);
    if (in_.take('=')) return look(depth, true, false);
    if (in_.take('!')) return look(depth, true, true);
    if (in_.take('>')) {
      FATHOM_ASSIGN(RegexNodePtr kid, closed(depth));
      return wrap(RegexKind::kAtomic, std::move(kid));
    }
    if (in_.take('<')) {
      if (in_.take('=')) return look(depth, false, false);
      if (in_.take('!')) return look(depth, false, true);
      return named(depth, '>');
    }
    if (in_.take('\'')) return named(depth, '\'');
    return options(depth);
  }

  Result<RegexNodePtr> closed(int depth) {
    const Flags saved = flags_;
    FATHOM_ASSIGN(RegexNodePtr node, alternation(depth + 1));
    flags_ = saved;
    if (!in_.take(')')) return in_.fail("has an opening parenthesis that is never closed");
    return node;
  }

  Result<RegexNodePtr> look(int depth, bool ahead, bool negative) {
    FATHOM_ASSIGN(RegexNodePtr kid, closed(depth));
    RegexNodePtr node = wrap(RegexKind::kLook, std::move(kid));
    node->ahead = ahead;
    node->negative = negative;
    return node;
  }

  Result<RegexNodePtr> named(int depth, uint32_t end) {
    while (!in_.done() && in_.peek() != end && in_.peek() != ')') in_.next();
    if (!in_.take(end)) return in_.fail("has a group name that does not end");
    return closed(depth);
  }

  // (?imx-imx) up to the end of the group, alternatives included, or (?imx-imx:...).
  Result<RegexNodePtr> options(int depth) {
    Flags flags = flags_;
    for (bool on = true; !in_.done();) {
      const uint32_t c = in_.next();
      if (c == '-') {
        on = false;
      } else if (c == 'i') {
        flags.ignore_case = on;
      } else if (c == 'm') {
        flags.dot_all = on;
      } else if (c == 'x') {
        flags.extended = on;
      } else if (c == ':' || c == ')') {
        const Flags saved = flags_;
        flags_ = flags;
        if (c == ')') return alternation(depth + 1);  // the caller closes the group
        FATHOM_ASSIGN(RegexNodePtr node, alternation(depth + 1));
        flags_ = saved;
        if (!in_.take(')')) return in_.fail("has an opening parenthesis that is never closed");
        return node;
      } else {
        break;
      }
    }
    return in_.fail("has a group of a kind that is not supported");
  }

  Result<RegexNodePtr> quantified(RegexNodePtr node) {
    for (int stacked = 0;; ++stacked) {
      skip_comments();
      if (in_.done()) return node;
      if (stacked > kMaxStackedRepeats) return in_.fail("stacks too many repeat operators");
      uint32_t min = 0;
      uint32_t max = kUnbounded;
      bool interval = false;
      if (in_.take('+')) {
        min = 1;
      } else if (in_.take('?')) {
        max = 1;
      } else if (in_.peek() == '{') {
        if (!counts(min, max)) return node;
        interval = true;
        if (min > kMaxCount || (max != kUnbounded && max > kMaxCount) || min > max) {
          return in_.fail("repeats something more than 1000 times, or from more to fewer times");
        }
      } else if (!in_.take('*')) {
        return node;
      }
      const bool fixed = interval && min == max;  // {n}? is "n times or not at all"
      const bool lazy = !fixed && in_.take('?');
      const bool possessive = !interval && !lazy && in_.take('+');
      node = regex_repeat(std::move(node), min, max);
      node->lazy = lazy;
      if (possessive) node = wrap(RegexKind::kAtomic, std::move(node));
    }
  }

  // {n}, {n,}, {n,m} or {,m}; false (and nothing taken) if it is none of them: then { is a literal.
  bool counts(uint32_t& min, uint32_t& max) {
    const auto start = in_.mark();
    in_.next();
    const bool has_min = in_.number(min);
    if (in_.take(',')) {
      const bool has_max = in_.number(max);
      if (!has_max) max = kUnbounded;
      if ((has_min || has_max) && in_.take('}')) return true;
    } else if (has_min && in_.take('}')) {
      max = min;
      return true;
    }
    in_.reset(start);
    return false;
  }

  RegexInput in_;
  Flags flags_;
};

}  // namespace

RegexNodePtr regex_set(CodeSet set) {
  auto node = std::make_unique<RegexNode>();
  node->kind = RegexKind::kSet;
  node->set = std::move(set);
  return node;
}

RegexNodePtr regex_repeat(RegexNodePtr kid, uint32_t min, uint32_t max) {
  auto node = std::make_unique<RegexNode>();
  node->kind = RegexKind::kRepeat;
  node->kids.push_back(std::move(kid));
  node->min = min;
  node->max = max;
  return node;
}

RegexNodePtr regex_alt(std::vector<RegexNodePtr> kids) {
  auto node = std::make_unique<RegexNode>();
  node->kind = RegexKind::kAlt;
  node->kids = std::move(kids);
  return node;
}

RegexNodePtr regex_literal(std::string_view text) {
  auto node = std::make_unique<RegexNode>();
  while (!text.empty()) {
    const Utf8Step step = decode_utf8(text);
    node->kids.push_back(regex_set(CodeSet::of(step.code)));
    text.remove_prefix(step.size);
  }
  return node;
}

Result<RegexNodePtr> parse_regex(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return error(Code::kCorrupt, "a regular expression of " + std::to_string(pattern.size()) +
                                     " bytes is longer than the 65536 that are supported");
  }
  return Parser(pattern).parse();
}

}  // namespace fathom
