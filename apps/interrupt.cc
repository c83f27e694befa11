// The SIGINT handler and its two flags.
#include "apps/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "apps/commands.h"

namespace fathom::apps {
namespace {

volatile sig_atomic_t guarded = 0;
volatile sig_atomic_t was_interrupted = 0;

void on_interrupt(int) {
  if (!guarded) _exit(kExitInterrupted);
  was_interrupted = 1;
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: reads from the terminal return
  sigaction(SIGINT, &action, nullptr);
}

InterruptGuard::InterruptGuard() {
  was_interrupted = 0;
  guarded = 1;
}
InterruptGuard::~InterruptGuard() {
  guarded = 0;
}
bool InterruptGuard::interrupted() const {
  return was_interrupted != 0;
}
void InterruptGuard::clear() {
  was_interrupted = 0;
}

}  // namespace fathom::apps
