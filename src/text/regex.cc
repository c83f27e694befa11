// Runs compiled regular expressions: a backtracking machine over character classes.
#include "text/regex.h"

#include <algorithm>

namespace fathom {
namespace {

// A search may take this many steps, and hold this many ways back, in all: plus so many for each
// character. Real patterns need some ten steps a character.
constexpr uint64_t kBaseSteps = 4000000;
constexpr uint64_t kStepsPerCharacter = 400;
constexpr size_t kBaseFrames = 1 << 16;
constexpr size_t kFramesPerCharacter = 16;
constexpr size_t kNowhere = SIZE_MAX;

}  // namespace

// One search through classes[begin, end).
class RegexRun {
 public:
  RegexRun(const Regex& regex, const uint8_t* classes, size_t begin, size_t end,
           Regex::Scratch& scratch)
      : regex_(regex), classes_(classes), begin_(begin), end_(end), scratch_(scratch) {
    scratch.frames.clear();
    scratch.failed.assign(static_cast<size_t>(regex.loops_), {});
    scratch.registers.assign(static_cast<size_t>(regex.registers_), 0);
    scratch.steps = kBaseSteps + kStepsPerCharacter * (end - begin);
    scratch.exhausted = false;
    max_frames_ = kBaseFrames + kFramesPerCharacter * (end - begin);
  }

  // The leftmost match that starts at `from` or later.
  bool search(size_t from, Regex::Match& match) {
    const uint8_t* first = regex_.first_set_ < 0 ? nullptr : set(regex_.first_set_);
    for (size_t at = from; at <= end_ && !scratch_.exhausted; ++at) {
      if (first != nullptr) {
        while (at < end_ && first[classes_[at]] == 0) ++at;
        if (at == end_) return false;
      }
      if (run(regex_.start_, at, kNowhere, match.end)) {
        match.begin = at;
        return true;
      }
    }
    return false;
  }

 private:
  using Op = Regex::Op;
  using Frame = Regex::Scratch::Frame;
  using Way = Regex::Scratch::Way;
  using Instruction = Regex::Instruction;

  const uint8_t* set(int index) const { return regex_.sets_[static_cast<size_t>(index)].data(); }
  bool in_set(size_t at, int index) const { return set(index)[classes_[at]] != 0; }

  bool spend(uint64_t steps) {
    if (scratch_.steps < steps || scratch_.frames.size() > max_frames_) {
      scratch_.exhausted = true;
      return false;
    }
    scratch_.steps -= steps;
    return true;
  }

  // Runs from `pc` at `at` up to kMatch; with a `target`, the match must end there.
  bool run(int pc, size_t at, size_t target, size_t& match_end) {
    const size_t base = scratch_.frames.size();
    for (;;) {
      if (!spend(1)) return false;
      const Instruction& in = regex_.program_[static_cast<size_t>(pc)];
      bool good = true;
      switch (in.op) {
        case Op::kSet:
          good = at < end_ && in_set(at, in.set);
          ++at;
          break;
        case Op::kSplit:
          if (in.set >= 0 && (at == end_ || !in_set(at, in.set))) {
            pc = in.other;
            continue;
          }
          scratch_.frames.push_back({Way::kGo, in.other, at});
          break;
        case Op::kLoop:
          good = enter_loop(pc, in, at);
          break;
        case Op::kAtomic: {
          size_t end = 0;
          good = run(in.other, at, kNowhere, end);
          at = end;
          break;
        }
        case Op::kLook:
          good = (in.behind ? look_behind(in, at) : look_ahead(in, at)) != in.flag;
          break;
        case Op::kAssert:
          good = holds(in.place, at);
          break;
        case Op::kEnter: {
          size_t& reg = scratch_.registers[static_cast<size_t>(in.reg)];
          scratch_.frames.push_back({Way::kRegister, in.reg, reg});
          reg = at;
          break;
        }
        case Op::kCheck:
          pc = scratch_.registers[static_cast<size_t>(in.reg)] == at ? in.other : in.next;
          continue;
        case Op::kMatch:
          if (target == kNowhere || target == at) {
            match_end = at;
            drop_frames(base);
            return true;
          }
          good = false;
          break;
      }
      if (good) {
        pc = in.next;
      } else if (scratch_.exhausted || !backtrack(base, pc, at)) {
        return false;
      }
    }
  }

  // A match is final for its run: registers get back what an outer loop had in them.
  void drop_frames(size_t base) {
    while (scratch_.frames.size() > base) {
      const Frame& frame = scratch_.frames.back();
      if (frame.way == Way::kRegister)
        scratch_.registers[static_cast<size_t>(frame.pc)] = frame.position;
      scratch_.frames.pop_back();
    }
  }

  // Takes up the latest way back of this run: false if there is none.
  bool backtrack(size_t base, int& pc, size_t& at) {
    while (scratch_.frames.size() > base) {
      Frame& frame = scratch_.frames.back();
      const Instruction& in = regex_.program_[static_cast<size_t>(frame.pc)];
      if (frame.way == Way::kLoop && resume_loop(in, frame, at)) {
        pc = in.next;
        return true;
      }
      if (frame.way == Way::kLoop && in.loop >= 0) remember_failure(in, frame);
      if (frame.way == Way::kRegister)
        scratch_.registers[static_cast<size_t>(frame.pc)] = frame.position;
      const bool go = frame.way == Way::kGo;
      pc = frame.pc;
      at = frame.position;
      scratch_.frames.pop_back();
      if (go) return true;
    }
    return false;
  }

  // Takes as much (greedy) or as little (lazy) of the set as it can and leaves a way back.
  bool enter_loop(int pc, const Instruction& in, size_t& at) {
    if (in.min > end_ - at) return false;
    const uint8_t* members = set(in.set);
    const size_t nearest = at + in.min;
    const size_t farthest = in.max > end_ - at ? end_ : at + in.max;
    size_t reach = at;
    while (reach < nearest && members[classes_[reach]] != 0) ++reach;
    if (reach < nearest) return false;
    if (in.flag) {
      if (reach < farthest) scratch_.frames.push_back({Way::kLoop, pc, reach, farthest});
      at = reach;
      return true;
    }
    if (in.loop >= 0) {
      const auto& failed = scratch_.failed[static_cast<size_t>(in.loop)];
      if (nearest >= failed.begin && nearest <= failed.end) return false;
    }
    while (reach < farthest && members[classes_[reach]] != 0) ++reach;
    if (!spend((reach - at) / 8)) return false;
    if (reach > nearest) scratch_.frames.push_back({Way::kLoop, pc, reach, nearest, reach});
    at = reach;
    return true;
  }

  bool resume_loop(const Instruction& in, Frame& frame, size_t& at) const {
    if (frame.position == frame.limit) return false;
    if (in.flag && !in_set(frame.position, in.set)) return false;
    frame.position += in.flag ? 1 : static_cast<size_t>(-1);
    at = frame.position;
    return true;
  }

  // The rest of the pattern fails wherever this greedy, unbounded loop could end: it will fail
  // again for every later entry into the same run, which makes a pattern like \s+$ linear.
  void remember_failure(const Instruction& in, const Frame& frame) {
    auto& failed = scratch_.failed[static_cast<size_t>(in.loop)];
    const bool same_run = failed.begin <= failed.end && failed.end == frame.reach;
    failed.begin = same_run ? std::min(failed.begin, frame.limit) : frame.limit;
    failed.end = frame.reach;
  }

  bool look_ahead(const Instruction& in, size_t at) {
    size_t end = 0;
    return run(in.other, at, kNowhere, end);
  }

  bool look_behind(const Instruction& in, size_t at) {
    size_t end = 0;
    for (size_t length = in.min; length <= in.max && length <= at - begin_; ++length) {
      if (run(in.other, at - length, at, end)) return true;
      if (scratch_.exhausted) return false;
    }
    return false;
  }

  bool holds(RegexPlace place, size_t at) const {
    const auto is = [&](size_t i, int index) {
      return i >= begin_ && i < end_ && in_set(i, index);
    };
    const bool before_word = at > begin_ && is(at - 1, regex_.word_set_);
    const bool before_newline = at > begin_ && is(at - 1, regex_.newline_set_);
    switch (place) {
      case RegexPlace::kTextBegin:
        return at == begin_;
      case RegexPlace::kTextEnd:
        return at == end_;
      case RegexPlace::kTextEndOrLastNewline:
        return at == end_ || (at + 1 == end_ && is(at, regex_.newline_set_));
      case RegexPlace::kLineBegin:
        return at == begin_ || (before_newline && at != end_);
      case RegexPlace::kLineEnd:
        return at == end_ || is(at, regex_.newline_set_);
      case RegexPlace::kWordBorder:
        return before_word != is(at, regex_.word_set_);
      case RegexPlace::kNoWordBorder:
        return before_word == is(at, regex_.word_set_);
    }
    return false;
  }

  const Regex& regex_;
  const uint8_t* classes_;
  size_t begin_;
  size_t end_;
  Regex::Scratch& scratch_;
  size_t max_frames_ = 0;
};

void Regex::classify(const uint32_t* codes, size_t count, uint8_t* classes) const {
  constexpr uint32_t kMask = (1u << kPageBits) - 1;
  for (size_t i = 0; i < count; ++i) {
    classes[i] = pages_[page_of_[codes[i] >> kPageBits]][codes[i] & kMask];
  }
}

Status Regex::find_all(const uint8_t* classes, size_t begin, size_t end, Scratch& scratch,
                       std::vector<Match>& matches) const {
  if (begin == end) return {};
  RegexRun run(*this, classes, begin, end, scratch);
  size_t from = begin;
  size_t last_end = kNowhere;
  Match match{};
  while (from <= end && run.search(from, match)) {
    if (match.begin == match.end && match.end == last_end) {
      ++from;
      continue;
    }
    matches.push_back(match);
    from = last_end = match.end;
  }
  if (scratch.exhausted) {
    return {
        Code::kCorrupt,
        "a regular expression of the tokenizer needs too many steps on this text; it backtracks "
        "without bound"};
  }
  return {};
}

}  // namespace fathom
