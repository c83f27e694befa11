// Ctrl-C: ends the program at once while nothing is generated, and only sets a flag while it is.
#pragma once

namespace fathom::apps {

// From now on SIGINT ends the program with kExitInterrupted, unless a guard is alive. Called once,
// by the main thread.
void install_interrupt_handler();

// While one is alive, SIGINT sets interrupted() instead. The main thread makes them, one at a time;
// the flag is cleared at the start.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;
  void clear();  // ready for the next Ctrl-C
  // Waits until `descriptor` can be read, or Ctrl-C; true for the first. Whichever thread receives
  // the signal, and whenever: no Ctrl-C is missed.
  bool wait_readable(int descriptor) const;
};

}  // namespace fathom::apps
