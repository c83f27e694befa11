// Regex: the regular expressions of tokenizer.json, matched in time linear in the text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "text/regex_syntax.h"

namespace fathom {

// A compiled regular expression; immutable, used by many threads, each with a Scratch of its own.
//
// A pattern tells characters apart only by the sets it names, so every code point is first replaced
// by its class (at most 256 of them) and the program then works on bytes. The Unicode sets are the
// project's own tables: a pattern means the same on every machine. Matching backtracks as Oniguruma
// does (leftmost, alternatives in order), remembers where a loop over one set has failed, and gives
// up with an error after a number of steps proportional to the text.
class Regex {
 public:
  struct Match {
    size_t begin;  // index of the first character
    size_t end;    // one past the last
  };

  // Memory of one matching thread, reused between calls.
  struct Scratch {
    enum class Way : uint8_t { kGo, kLoop, kRegister };
    // A way back: go on at `pc` from `position`; or try the loop `pc` at its next position; or give
    // the register `pc` its old value `position` and look further back.
    struct Frame {
      Way way;
      int pc;
      size_t position;
      size_t limit = 0;  // loops: the last position to try
      size_t reach = 0;  // greedy loops: where the run of the set ends
    };
    struct FailedRun {
      size_t begin = 1;  // the rest of the pattern fails at each of [begin, end]
      size_t end = 0;
    };
    std::vector<Frame> frames;
    std::vector<FailedRun> failed;  // [loops]
    std::vector<size_t> registers;
    uint64_t steps = 0;  // left
    bool exhausted = false;
  };

  static Result<Regex> compile(std::string_view pattern);
  static Result<Regex> compile(const RegexNode& root);

  // classes[i] = class of codes[i]. // [count]
  void classify(const uint32_t* codes, size_t count, uint8_t* classes) const;

  // Appends every match in classes[begin, end), left to right, not overlapping, as Oniguruma's
  // find_iter gives them: the range is the whole text, nothing outside it is seen. An empty match
  // right behind the match before it is skipped.
  Status find_all(const uint8_t* classes, size_t begin, size_t end, Scratch& scratch,
                  std::vector<Match>& matches) const;

 private:
  friend class RegexCompiler;
  friend class RegexRun;

  enum class Op : uint8_t { kSet, kSplit, kLoop, kAtomic, kLook, kAssert, kEnter, kCheck, kMatch };
  struct Instruction {
    Op op;
    bool flag = false;    // kLoop: lazy; kLook: negative
    bool behind = false;  // kLook
    RegexPlace place = RegexPlace::kTextBegin;
    int set = -1;  // kSet, kLoop; kSplit: what the preferred way can start with (-1: anything)
    int next = 0;
    int other = 0;     // kSplit: second choice; kAtomic, kLook: start of the inner program
    int loop = -1;     // kLoop: index of its FailedRun, -1 if it may not have one
    int reg = -1;      // kEnter, kCheck
    uint32_t min = 0;  // kLoop: repeats; kLook behind: length of the inner match
    uint32_t max = 0;
  };

  static constexpr size_t kPageBits = 8;
  std::vector<uint16_t> page_of_;  // [code >> kPageBits]
  std::vector<std::array<uint8_t, 1 << kPageBits>> pages_;
  std::vector<std::array<uint8_t, 256>> sets_;  // [set][class]: 1 if in the set
  std::vector<Instruction> program_;
  int start_ = 0;
  int first_set_ = -1;  // what a match can start with (-1: anything)
  int word_set_ = -1;
  int newline_set_ = -1;
  int loops_ = 0;
  int registers_ = 0;
};

}  // namespace fathom
