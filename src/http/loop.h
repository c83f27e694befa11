// Loop: a network thread that runs the handlers of its connections, one at a time.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace fathom {

// Owned by the server and by exchanges that are still held somewhere: these may post() at any time.
class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void start();
  // Runs `work` soon on the thread; drops it after finish(). Any thread.
  void post(std::function<void()> work);
  // For sockets and timers of this thread; not to be used after finish().
  boost::asio::io_context& context() { return *context_; }
  // Waits until everything that is pending has run; nothing may be left that waits for ever.
  void finish();

 private:
  void run();

  std::mutex mutex_;
  bool open_ = true;
  std::unique_ptr<boost::asio::io_context> context_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::thread thread_;
};

}  // namespace fathom
