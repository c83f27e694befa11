// What one rendering owns: its limits, its memory account, and the objects that could form cycles.
#pragma once

#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/value.h"

namespace fathom::jinja {

// A template comes with the model, from anyone: these make every rendering end, soon and in bounded
// memory, with a message.
struct Limits {
  uint64_t work = 4'000'000'000;          // units: about a byte touched; kStep per step
  size_t live_bytes = size_t{256} << 20;  // objects and text alive at one time, input not counted
  int call_depth = 1200;                  // nested evaluations, macros included
  int value_depth = 400;                  // lists in lists in lists
};
inline constexpr uint64_t kStep = 40;  // what evaluating one node costs in units of work

using LocalTime = std::tm (*)();  // where strftime_now takes the time from
std::tm system_local_time();

class Runtime {
 public:
  Runtime(const Limits& limits, LocalTime now);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Charges work; throws when the budget is spent.
  void work(uint64_t units) {
    if (units > work_left_) out_of_work();
    work_left_ -= units;
  }
  void step() { work(kStep); }
  // Throws unless `bytes` more may live; charges them as work.
  void reserve(size_t bytes);
  Meter& meter() { return meter_; }

  Value string(std::string text, bool markup = false);
  Value list(std::vector<Value> items);
  Value tuple(std::vector<Value> items);
  Value pair(Value first, Value second);
  Value dict(std::shared_ptr<DictObject> dict);
  Value undefined(std::string message, bool security = false);
  Value function(std::string name, Function function, Value self = Value());
  Value make_namespace(std::vector<std::pair<std::string, Value>> attributes);
  // Meters `object` and checks its depth: every object made while rendering passes here.
  template <typename T>
  std::shared_ptr<T> adopt(std::shared_ptr<T> object, size_t bytes, int depth = 1) {
    account(*object, bytes, depth);
    return object;
  }
  void own(std::shared_ptr<MutableObject> object) { owned_.push_back(std::move(object)); }
  // Appends to a list in the making, within the limit.
  void push(std::vector<Value>& items, Value value);

  [[noreturn]] void fail(FailureKind kind, const std::string& message) const;
  [[noreturn]] void type_error(const std::string& message) const {
    fail(FailureKind::kType, message);
  }
  // Throws what Python's Undefined throws when `value` is one and gets used.
  void require_defined(const Value& value) const;

  const Limits& limits() const { return limits_; }
  std::tm local_time() const { return now_(); }

  int line = 0;        // of the construct being evaluated, for messages
  int call_depth = 0;  // of the evaluator

 private:
  void account(Object& object, size_t bytes, int depth);
  [[noreturn]] void out_of_work() const;

  Limits limits_;
  LocalTime now_;
  uint64_t work_left_;
  Meter meter_;
  std::deque<std::shared_ptr<MutableObject>> owned_;  // emptied at the end: they may be cyclic
};

// Text in the making. Its bytes count as alive at once, so that no append can run away.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime) {}
  ~TextBuilder() { runtime_.meter().live -= counted_; }
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;

  TextBuilder& append(std::string_view text);
  TextBuilder& append(char c) { return append(std::string_view(&c, 1)); }
  TextBuilder& repeat(std::string_view text, size_t times);
  TextBuilder& character(char32_t c);
  size_t size() const { return text_.size(); }
  const std::string& text() const { return text_; }
  std::string take();
  Value value(bool markup = false) { return runtime_.string(take(), markup); }

 private:
  Runtime& runtime_;
  std::string text_;
  size_t counted_ = 0;
};

// Nested work: counts one level of depth while it lives, so that recursion ends with a message.
class DepthGuard {
 public:
  explicit DepthGuard(Runtime& runtime) : runtime_(runtime) {
    if (++runtime_.call_depth > runtime_.limits().call_depth) {
      --runtime_.call_depth;
      runtime_.fail(FailureKind::kLimit, "the template nests calls or expressions too deeply");
    }
  }
  ~DepthGuard() { --runtime_.call_depth; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Runtime& runtime_;
};

}  // namespace fathom::jinja
