// The SIGINT handler and its two flags.
#include "apps/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "apps/commands.h"

namespace fathom::apps {
namespace {

volatile sig_atomic_t guarded = 0;
volatile sig_atomic_t was_interrupted = 0;
int wake_pipe[2] = {-1, -1};  // the handler writes a byte, so that poll() returns

void on_interrupt(int) {
  if (!guarded) _exit(kExitInterrupted);
  was_interrupted = 1;
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = write(wake_pipe[1], "", 1);
  errno = saved;
}

void drain_wake_pipe() {
  char bytes[64];
  while (read(wake_pipe[0], bytes, sizeof bytes) > 0) {
  }
}

}  // namespace

void install_interrupt_handler() {
  // Without a pipe Ctrl-C still works, but at the prompt only from the next key on.
  if (pipe2(wake_pipe, O_NONBLOCK | O_CLOEXEC) != 0) wake_pipe[0] = wake_pipe[1] = -1;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
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
  drain_wake_pipe();
}

bool InterruptGuard::wait_readable(int descriptor) const {
  pollfd events[2] = {{descriptor, POLLIN, 0}, {wake_pipe[0], POLLIN, 0}};
  while (!interrupted()) {
    const int ready = poll(events, 2, -1);
    if (ready > 0 && events[0].revents != 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // let the read report what is wrong
    if (ready > 0) drain_wake_pipe();
  }
  return false;
}

}  // namespace fathom::apps
