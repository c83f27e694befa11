// Runs a network thread.
#include "http/loop.h"

#include <boost/asio/post.hpp>
#include <exception>

#include "core/log.h"

namespace fathom {

Loop::Loop()
    : context_(std::make_unique<boost::asio::io_context>(1)), work_(context_->get_executor()) {}

Loop::~Loop() {
  finish();
}

void Loop::start() {
  thread_ = std::thread([this] { run(); });
}

void Loop::run() {
  while (true) {
    // What a handler throws (no memory for a request, say) costs its connection, not the server.
    try {
      context_->run();
      return;
    } catch (const std::exception& e) {
      log::error("A request was dropped: {}.", e.what());
    }
  }
}

void Loop::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (open_) boost::asio::post(*context_, std::move(work));
}

void Loop::finish() {
  work_.reset();
  if (thread_.joinable()) thread_.join();
  std::unique_ptr<boost::asio::io_context> context;
  {
    const std::lock_guard lock(mutex_);
    open_ = false;
    context = std::move(context_);
  }
}  // what was posted too late is dropped here, outside the lock

}  // namespace fathom
