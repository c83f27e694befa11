// Turns a syntax tree into classes of characters and a program over them.
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "text/regex.h"

namespace fathom {
namespace {

constexpr size_t kMaxInstructions = 20000;
constexpr size_t kMaxVisits = 1000000;  // of nodes, while repeats are written out
constexpr size_t kMaxRanges = 4000000;  // over all sets of a pattern

struct Length {
  uint64_t min = 0;
  uint64_t max = 0;  // kUnbounded and above: no limit
};

uint64_t bounded(uint64_t value) {
  return std::min<uint64_t>(value, kUnbounded);
}

Length length_of(const RegexNode& node) {
  Length length;
  switch (node.kind) {
    case RegexKind::kSet:
      return {1, 1};
    case RegexKind::kConcat:
      for (const auto& kid : node.kids) {
        const Length part = length_of(*kid);
        length = {bounded(length.min + part.min), bounded(length.max + part.max)};
      }
      return length;
    case RegexKind::kAlt:
      length.min = kUnbounded;
      for (const auto& kid : node.kids) {
        const Length part = length_of(*kid);
        length = {std::min(length.min, part.min), std::max(length.max, part.max)};
      }
      return length;
    case RegexKind::kRepeat: {
      const Length part = length_of(*node.kids[0]);
      const bool endless = node.max == kUnbounded && part.max > 0;
      return {bounded(part.min * node.min), endless ? kUnbounded : bounded(part.max * node.max)};
    }
    case RegexKind::kAtomic:
      return length_of(*node.kids[0]);
    case RegexKind::kLook:
    case RegexKind::kAssert:
      return {0, 0};
  }
  return length;
}

}  // namespace

// Builds one Regex. Used once.
class RegexCompiler {
 public:
  Result<Regex> compile(const RegexNode& root) {
    collect(root);
    regex_.word_set_ = add_set(word_set());
    regex_.newline_set_ = add_set(CodeSet::of('\n'));
    FATHOM_TRY(make_classes());
    marks_allowed_ = !has_group_loop(root);
    const int match = emit({Regex::Op::kMatch});
    regex_.start_ = compile_node(root, match);
    if (too_large_) {
      return error(
          Code::kUnsupported,
          "the regular expression needs more than 20000 instructions; its repeats are nested");
    }
    regex_.first_set_ = add_first_set(first_of(root));
    regex_.registers_ = registers_;
    return std::move(regex_);
  }

 private:
  struct First {
    std::array<uint8_t, 256> set{};  // [class]
    bool can_be_empty = false;
    void merge(const First& other) {
      for (size_t i = 0; i < set.size(); ++i) set[i] |= other.set[i];
      can_be_empty = other.can_be_empty;
    }
  };

  void collect(const RegexNode& node) {
    if (node.kind == RegexKind::kSet) add_set(node.set);
    for (const auto& kid : node.kids) collect(*kid);
  }

  int add_set(const CodeSet& set) {
    const auto [at, added] = set_index_.emplace(set.ranges(), static_cast<int>(set_index_.size()));
    if (added) ranges_ += set.ranges().size();
    return at->second;
  }

  // Cuts the code points into classes: two are in one class if exactly the same sets have them.
  Status make_classes() {
    if (ranges_ > kMaxRanges) {
      return {Code::kUnsupported, "the regular expression names too many ranges of characters"};
    }
    std::vector<std::pair<uint32_t, int>> toggles;  // at this code point, this set begins or ends
    for (const auto& [ranges, set] : set_index_) {
      for (const auto& [first, last] : ranges) {
        toggles.emplace_back(first, set);
        toggles.emplace_back(last + 1, set);
      }
    }
    std::sort(toggles.begin(), toggles.end());
    std::string members(set_index_.size(), 0);
    std::unordered_map<std::string, int> class_of;
    std::vector<uint8_t> classes(kMaxCodePoint + 1);
    uint32_t start = 0;
    for (size_t i = 0; start <= kMaxCodePoint;) {
      for (; i < toggles.size() && toggles[i].first == start; ++i) members[toggles[i].second] ^= 1;
      const uint32_t end = i < toggles.size() ? toggles[i].first : kMaxCodePoint + 1;
      const int id = class_of.emplace(members, static_cast<int>(class_of.size())).first->second;
      if (id > 255) {
        return {Code::kUnsupported,
                "the regular expression tells more than 256 kinds of character apart"};
      }
      std::fill(classes.begin() + start, classes.begin() + end, static_cast<uint8_t>(id));
      start = end;
    }
    regex_.sets_.resize(set_index_.size());
    for (const auto& [key, id] : class_of) {
      for (size_t set = 0; set < key.size(); ++set)
        regex_.sets_[set][id] = static_cast<uint8_t>(key[set]);
    }
    make_pages(classes);
    return {};
  }

  void make_pages(const std::vector<uint8_t>& classes) {
    constexpr size_t kPage = 1 << Regex::kPageBits;
    std::unordered_map<std::string, uint16_t> known;
    for (size_t at = 0; at < classes.size(); at += kPage) {
      const auto* page = reinterpret_cast<const char*>(classes.data() + at);
      const auto index = static_cast<uint16_t>(regex_.pages_.size());
      const auto [entry, added] = known.emplace(std::string(page, kPage), index);
      if (added) {
        regex_.pages_.emplace_back();
        std::copy_n(classes.data() + at, kPage, regex_.pages_.back().begin());
      }
      regex_.page_of_.push_back(entry->second);
    }
  }

  // A repeat of more than one character whose body can be empty makes a loop's failure depend on
  // where the body began; such patterns do without the memory of failed runs.
  static bool has_group_loop(const RegexNode& node) {
    if (node.kind == RegexKind::kRepeat && node.kids[0]->kind != RegexKind::kSet &&
        length_of(*node.kids[0]).min == 0) {
      return true;
    }
    return std::any_of(node.kids.begin(), node.kids.end(),
                       [](const auto& kid) { return has_group_loop(*kid); });
  }

  int emit(Regex::Instruction instruction) {
    if (regex_.program_.size() >= kMaxInstructions) {
      too_large_ = true;
      return 0;
    }
    regex_.program_.push_back(instruction);
    return static_cast<int>(regex_.program_.size()) - 1;
  }

  // Emits the code of `node` that goes on at `next`; returns where it starts.
  int compile_node(const RegexNode& node, int next) {
    if (++visits_ > kMaxVisits) too_large_ = true;
    if (too_large_) return 0;
    switch (node.kind) {
      case RegexKind::kSet: {
        Regex::Instruction in{Regex::Op::kSet};
        in.set = add_set(node.set);
        in.next = next;
        return emit(in);
      }
      case RegexKind::kConcat:
        for (size_t i = node.kids.size(); i-- > 0;) next = compile_node(*node.kids[i], next);
        return next;
      case RegexKind::kAlt:
        return compile_alternatives(node, next);
      case RegexKind::kRepeat:
        return compile_repeat(node, next);
      case RegexKind::kAtomic: {
        Regex::Instruction in{Regex::Op::kAtomic};
        in.other = compile_node(*node.kids[0], emit({Regex::Op::kMatch}));
        in.next = next;
        return emit(in);
      }
      case RegexKind::kLook:
        return compile_look(node, next);
      case RegexKind::kAssert: {
        Regex::Instruction in{Regex::Op::kAssert};
        in.place = node.place;
        in.next = next;
        return emit(in);
      }
    }
    return next;
  }

  int compile_alternatives(const RegexNode& node, int next) {
    int start = compile_node(*node.kids.back(), next);
    for (size_t i = node.kids.size() - 1; i-- > 0;) {
      Regex::Instruction in{Regex::Op::kSplit};
      in.next = compile_node(*node.kids[i], next);
      in.other = start;
      in.set = add_first_set(first_of(*node.kids[i]));
      start = emit(in);
    }
    return start;
  }

  int compile_look(const RegexNode& node, int next) {
    Regex::Instruction in{Regex::Op::kLook};
    in.flag = node.negative;
    in.behind = !node.ahead;
    const Length length = length_of(*node.kids[0]);
    in.min = static_cast<uint32_t>(length.min);
    in.max = static_cast<uint32_t>(length.max);
    const bool outer = marks_allowed_;
    if (in.behind) marks_allowed_ = false;  // must end at one place: failing elsewhere says nothing
    in.other = compile_node(*node.kids[0], emit({Regex::Op::kMatch}));
    marks_allowed_ = outer;
    in.next = next;
    return emit(in);
  }

  int compile_repeat(const RegexNode& node, int next) {
    const RegexNode& kid = *node.kids[0];
    if (kid.kind == RegexKind::kSet) {
      Regex::Instruction in{Regex::Op::kLoop};
      in.set = add_set(kid.set);
      in.min = node.min;
      in.max = node.max;
      in.flag = node.lazy;
      in.next = next;
      if (marks_allowed_ && !node.lazy && node.max == kUnbounded) in.loop = regex_.loops_++;
      return emit(in);
    }
    int start = next;
    if (node.max == kUnbounded) {
      start = compile_star(kid, node.lazy, next);
    } else {
      for (uint32_t i = node.min; i < node.max && !too_large_; ++i) {
        start = emit_split(compile_node(kid, start), next, node.lazy);
      }
    }
    for (uint32_t i = 0; i < node.min && !too_large_; ++i) start = compile_node(kid, start);
    return start;
  }

  int emit_split(int body, int exit, bool lazy) {
    Regex::Instruction in{Regex::Op::kSplit};
    in.next = lazy ? exit : body;
    in.other = lazy ? body : exit;
    return emit(in);
  }

  int compile_star(const RegexNode& kid, bool lazy, int next) {
    const int split = emit_split(0, 0, lazy);
    int back = split;
    const int reg = length_of(kid).min == 0 ? registers_++ : -1;
    if (reg >= 0) {  // a turn that matched nothing ends the loop
      Regex::Instruction check{Regex::Op::kCheck};
      check.reg = reg;
      check.next = split;
      check.other = next;
      back = emit(check);
    }
    int body = compile_node(kid, back);
    if (reg >= 0) {
      Regex::Instruction enter{Regex::Op::kEnter};
      enter.reg = reg;
      enter.next = body;
      body = emit(enter);
    }
    if (too_large_) return 0;
    regex_.program_[split].next = lazy ? next : body;
    regex_.program_[split].other = lazy ? body : next;
    return split;
  }

  // What the first character of a match of `node` can be.
  First first_of(const RegexNode& node) {
    First first;
    switch (node.kind) {
      case RegexKind::kSet:
        return {regex_.sets_[add_set(node.set)], false};
      case RegexKind::kConcat:
        for (const auto& kid : node.kids) {
          first.merge(first_of(*kid));
          if (!first.can_be_empty) return first;
          first.can_be_empty = false;
        }
        first.can_be_empty = true;
        return first;
      case RegexKind::kAlt: {
        bool empty = false;
        for (const auto& kid : node.kids) {
          first.merge(first_of(*kid));
          empty = empty || first.can_be_empty;
        }
        first.can_be_empty = empty;
        return first;
      }
      case RegexKind::kRepeat:
        first.merge(first_of(*node.kids[0]));
        first.can_be_empty = first.can_be_empty || node.min == 0;
        return first;
      case RegexKind::kAtomic:
        return first_of(*node.kids[0]);
      case RegexKind::kLook:
      case RegexKind::kAssert:
        first.can_be_empty = true;
        return first;
    }
    return first;
  }

  int add_first_set(const First& first) {
    if (first.can_be_empty) return -1;
    regex_.sets_.push_back(first.set);
    return static_cast<int>(regex_.sets_.size()) - 1;
  }

  Regex regex_;
  std::map<std::vector<CodeSet::Range>, int> set_index_;
  size_t ranges_ = 0;
  int registers_ = 0;
  size_t visits_ = 0;
  bool marks_allowed_ = true;
  bool too_large_ = false;
};

Result<Regex> Regex::compile(const RegexNode& root) {
  return RegexCompiler().compile(root);
}

Result<Regex> Regex::compile(std::string_view pattern) {
  FATHOM_ASSIGN(RegexNodePtr root, parse_regex(pattern));
  return compile(*root);
}

}  // namespace fathom
