// StopMatcher: finds stop strings in streamed text, also across the borders of its pieces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom {

// Looks for stop strings in a text that arrives in pieces, holding back only what may still become
// one. The match that is complete first wins, wherever the pieces are cut; of those complete at the
// same byte, the longest. Works on bytes; cost is linear in the text. Used by one thread at a time.
class StopMatcher {
 public:
  struct Output {
    std::string emit;      // text that is certain now
    bool stopped = false;  // a stop string has been found: nothing will follow
  };

  // Empty stop strings are ignored. With `include_stop` the stop string itself is emitted too.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false);

  Output push(std::string_view text);  // text after a match is dropped
  // The text is over: what was held back is certain now ("" after a match).
  std::string finish();

  bool stopped() const { return stopped_; }
  const std::string& matched_stop() const { return matched_stop_; }  // "" before a match

 private:
  // A node of an Aho-Corasick automaton: the longest end of the text that begins a stop string.
  struct State {
    std::vector<std::pair<unsigned char, size_t>> next;
    size_t fail = 0;
    size_t depth = 0;      // bytes of that end
    size_t stop_size = 0;  // the longest stop string that is complete here, 0 if none
  };
  void add(std::string_view stop);
  void link();
  size_t child(size_t state, unsigned char byte) const;  // 0 if there is none
  size_t step(size_t state, unsigned char byte) const;

  std::vector<State> states_;  // [0] is the root
  size_t state_ = 0;
  std::string held_;  // the last states_[state_].depth bytes
  bool include_stop_;
  bool stopped_ = false;
  std::string matched_stop_;
};

}  // namespace fathom
