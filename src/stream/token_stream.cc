// A bounded queue of events between the engine's thread and one reader.
#include "stream/token_stream.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace fathom {

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "error";
}

struct TokenStream::Impl {
  std::string request_id;
  size_t capacity;
  std::function<void()> on_event;

  mutable std::mutex mutex;
  std::condition_variable arrived;
  std::deque<StreamEvent> events;
  bool finished = false;  // the terminal event was pushed
  bool over = false;      // and read
};

TokenStream::TokenStream(std::string request_id, size_t capacity, std::function<void()> on_event)
    : impl_(std::make_unique<Impl>()) {
  impl_->request_id = std::move(request_id);
  impl_->capacity = capacity;
  impl_->on_event = std::move(on_event);
}

TokenStream::~TokenStream() = default;

const std::string& TokenStream::request_id() const {
  return impl_->request_id;
}

std::optional<StreamEvent> TokenStream::next(double timeout_seconds) {
  std::unique_lock<std::mutex> lock(impl_->mutex);
  const auto ready = [this] { return !impl_->events.empty() || impl_->over; };
  // A wait that outlasts any program is a wait without end; larger numbers overflow the clock.
  constexpr double kForever = 1e8;
  if (!(timeout_seconds >= 0 && timeout_seconds < kForever)) {
    impl_->arrived.wait(lock, ready);
  } else if (!impl_->arrived.wait_for(lock, std::chrono::duration<double>(timeout_seconds),
                                      ready)) {
    return std::nullopt;
  }
  if (impl_->events.empty()) return std::nullopt;
  std::optional<StreamEvent> event(std::move(impl_->events.front()));
  impl_->events.pop_front();
  impl_->over = event->finished;
  return event;
}

bool TokenStream::push(StreamEvent&& event) {
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    if (impl_->finished) return false;
    if (!event.finished && impl_->events.size() >= impl_->capacity) return false;
    impl_->finished = event.finished;
    impl_->events.push_back(std::move(event));
  }
  impl_->arrived.notify_all();
  if (impl_->on_event) impl_->on_event();
  return true;
}

bool TokenStream::finished() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->finished;
}

}  // namespace fathom
