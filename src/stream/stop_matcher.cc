// An Aho-Corasick automaton whose depth says how much text must be held back.
#include "stream/stop_matcher.h"

namespace fathom {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : states_(1), include_stop_(include_stop) {
  for (const std::string& stop : stops) add(stop);
  link();
}

void StopMatcher::add(std::string_view stop) {
  size_t state = 0;
  for (const char c : stop) {
    const auto byte = static_cast<unsigned char>(c);
    size_t next = child(state, byte);
    if (next == 0) {
      next = states_.size();
      states_.emplace_back();
      states_.back().depth = states_[state].depth + 1;
      states_[state].next.emplace_back(byte, next);
    }
    state = next;
  }
  states_[state].stop_size = stop.size();
}

// Sets the fail links in order of depth. A stop string that ends inside another one is found
// through them: the longest one at a state is its own, else that of its fail state.
void StopMatcher::link() {
  std::vector<size_t> order{0};
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t state = order[i];
    for (const auto& [byte, next] : states_[state].next) {
      states_[next].fail = state == 0 ? 0 : step(states_[state].fail, byte);
      if (states_[next].stop_size == 0)
        states_[next].stop_size = states_[states_[next].fail].stop_size;
      order.push_back(next);
    }
  }
}

size_t StopMatcher::child(size_t state, unsigned char byte) const {
  for (const auto& [edge, next] : states_[state].next) {
    if (edge == byte) return next;
  }
  return 0;
}

size_t StopMatcher::step(size_t state, unsigned char byte) const {
  for (;;) {
    const size_t next = child(state, byte);
    if (next != 0 || state == 0) return next;
    state = states_[state].fail;
  }
}

StopMatcher::Output StopMatcher::push(std::string_view text) {
  if (stopped_) return {{}, true};
  Output output;
  for (size_t i = 0; i < text.size(); ++i) {
    state_ = step(state_, static_cast<unsigned char>(text[i]));
    const size_t stop_size = states_[state_].stop_size;
    if (stop_size == 0) continue;
    held_.append(text.substr(0, i + 1));
    matched_stop_ = held_.substr(held_.size() - stop_size);
    if (!include_stop_) held_.resize(held_.size() - stop_size);
    stopped_ = true;
    return {std::exchange(held_, {}), true};
  }
  held_.append(text);
  const size_t certain = held_.size() - states_[state_].depth;
  output.emit = held_.substr(0, certain);
  held_.erase(0, certain);
  return output;
}

std::string StopMatcher::finish() {
  state_ = 0;
  return std::exchange(held_, {});
}

}  // namespace fathom
