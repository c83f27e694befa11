// Monotonic time in seconds.
#pragma once

#include <chrono>

namespace fathom {

inline double now_seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace fathom
