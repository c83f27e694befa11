// StopMatcher: finds stop strings in streamed text, also across the borders of its pieces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// Looks for the earliest occurrence of any stop string in a text that arrives in pieces, holding
// back only what may still become one. Works on bytes; cost is linear in the text. Owned by one
// sequence, used by one thread at a time.
class StopMatcher {
 public:
  struct Output {
    std::string emit;      // text that is now certain
    bool stopped = false;  // a stop string was found: nothing will follow
  };

  // Empty stop strings are ignored. With `include_stop` the stop string itself is emitted too.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false);

  // The earliest match wins: the one that starts first, and of those that start together the one
  // that is complete first. After a match further text is dropped.
  Output push(std::string_view text);
  // The text is over: what was held back is certain now ("" after a match).
  std::string finish();

  bool stopped() const { return stopped_; }
  const std::string& matched_stop() const { return matched_stop_; }  // "" before a match

 private:
  // Aho-Corasick automaton over the stop strings; state 0 is the root.
  struct State {
    std::vector<std::pair<unsigned char, int>> next;  // few children: searched in order
    int fail = 0;
    int depth = 0;           // bytes matched so far
    int stop = -1;           // index of the longest stop string that ends here
  };
  int step(int state, unsigned char byte) const;

  std::vector<std::string> stops_;
  std::vector<State> states_;
  std::string held_;  // the last bytes seen, at most the longest stop string
  int state_ = 0;
  bool include_stop_;
  bool stopped_ = false;
  std::string matched_stop_;
};

}  // namespace fathom
