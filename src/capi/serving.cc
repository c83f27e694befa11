// The serving face: engines, requests and the queues that their events arrive in.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capi/boundary.h"
#include "capi/event.h"
#include "capi/options.h"
#include "engine/engine.h"
#include "engine/structured_output.h"

namespace fathom::capi {

// An engine and the ids of its live requests.
struct EngineState {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<StructuredOutput> structured;
  std::mutex mutex;
  std::unordered_map<uint64_t, std::string> ids;  // request number to id
};

// Shared by the handle and the callbacks of its requests, so either may go first.
struct QueueState {
  struct Open {
    std::shared_ptr<TokenStream> stream;
    std::weak_ptr<EngineState> engine;
    void* user = nullptr;
    int choice = 0;
  };
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<uint64_t> tickets;  // a request's number for each event that waits, in order
  std::unordered_map<uint64_t, Open> open;
  bool closed = false;

  // The engine's thread, after each event.
  void add_ticket(uint64_t number) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (closed) return;
      tickets.push_back(number);
    }
    arrived.notify_one();
  }
  // An event may come before submit() has returned and its request is known here.
  bool ready() const { return !tickets.empty() && open.count(tickets.front()) != 0; }
  bool exhausted() const { return tickets.empty() && open.empty(); }
};

}  // namespace fathom::capi

struct fathom_engine {
  std::shared_ptr<fathom::capi::EngineState> state;
};
struct fathom_queue {
  std::shared_ptr<fathom::capi::QueueState> state;
};

namespace fathom::capi {

namespace {

constexpr size_t kRequestSize = offsetof(fathom_request, cache_salt);  // of the first version
constexpr size_t kMetricsSize = offsetof(fathom_metrics, kv_pages_cached);
// A wait that outlasts any program is a wait without end; larger numbers overflow the clock.
constexpr int64_t kForeverMs = int64_t{100} * 365 * 24 * 3600 * 1000;

Status read_prompt(const fathom_request& given, Prompt* prompt) {
  const int kinds = (given.prompt_ids != nullptr) + (given.prompt_text != nullptr) +
                    (given.messages_json != nullptr);
  if (kinds != 1) {
    return bad_call(
        fmt::format("fathom_request has {} of prompt_ids, prompt_text and "
                    "messages_json; give exactly one.",
                    kinds));
  }
  const auto text_or_empty = [](const char* text) { return std::string(text ? text : ""); };
  if (given.prompt_ids != nullptr) {
    *prompt = TokenPrompt(given.prompt_ids, given.prompt_ids + given.prompt_count);
  } else if (given.prompt_text != nullptr) {
    TextPrompt text;
    text.text.assign(given.prompt_text, given.prompt_text_bytes);
    text.add_special_tokens = given.no_special_tokens == 0;
    text.parse_special = given.plain_text == 0;
    *prompt = std::move(text);
  } else {
    *prompt = ChatPrompt{given.messages_json, text_or_empty(given.tools_json),
                         text_or_empty(given.template_kwargs_json)};
  }
  return Status();
}

uint64_t next_request_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// A request and where its events go. `choices`: absent for one answer under the request's own id.
struct SubmitCall {
  std::shared_ptr<EngineState> engine;
  std::shared_ptr<QueueState> queue;
  const fathom_request* request = nullptr;
  std::optional<int32_t> choices;
  uint64_t* numbers = nullptr;  // [choices]; NULL = not wanted
};

Status read_request(const EngineState& engine, const fathom_request& given, Request* request) {
  FATHOM_RETURN_IF_ERROR(read_prompt(given, &request->prompt));
  request->sampling = engine.engine->default_sampling();
  std::string response_format;
  FATHOM_RETURN_IF_ERROR(parse_sampling(given.sampling_json, request, &response_format));
  request->priority = given.priority;
  request->stream_capacity = given.stream_capacity;
  if (given.cache_salt != nullptr) request->cache_salt = given.cache_salt;
  request->timeout_seconds = given.timeout_seconds;
  if (response_format.empty()) return Status();
  GrammarSpec form;
  FATHOM_ASSIGN_OR_STATUS(const bool held, parse_response_format(response_format, &form));
  return held ? engine.structured->apply(form, request) : Status();
}

Status submit(const SubmitCall& call) {
  fathom_request given;
  FATHOM_RETURN_IF_ERROR(read_struct(call.request, kRequestSize, "fathom_request", &given));
  Request request;
  FATHOM_RETURN_IF_ERROR(read_request(*call.engine, given, &request));
  std::vector<uint64_t> numbers(call.choices ? std::clamp<int32_t>(*call.choices, 0, 128) : 1);
  for (uint64_t& number : numbers) number = next_request_number();
  if (!numbers.empty()) request.id = fmt::format("request-{}", numbers[0]);
  if (given.id != nullptr) request.id = given.id;
  const auto listener = [queue = call.queue, numbers](int choice) -> std::function<void()> {
    return [queue, number = numbers[choice]] { queue->add_ticket(number); };
  };

  std::vector<std::shared_ptr<TokenStream>> streams;
  if (call.choices) {
    FATHOM_ASSIGN_OR_STATUS(
        streams, call.engine->engine->submit_many(std::move(request), *call.choices, listener));
  } else {
    request.on_event = listener(0);
    FATHOM_ASSIGN_OR_STATUS(auto stream, call.engine->engine->submit(std::move(request)));
    streams.push_back(std::move(stream));
  }
  {
    const std::lock_guard<std::mutex> lock(call.engine->mutex);
    for (size_t i = 0; i < streams.size(); ++i) {
      call.engine->ids[numbers[i]] = streams[i]->request_id();
    }
  }
  {
    const std::lock_guard<std::mutex> lock(call.queue->mutex);
    for (size_t i = 0; i < streams.size(); ++i) {
      call.queue->open[numbers[i]] = {std::move(streams[i]), call.engine, given.user,
                                      static_cast<int>(i)};
    }
  }
  call.queue->arrived.notify_all();
  if (call.numbers != nullptr) std::copy(numbers.begin(), numbers.end(), call.numbers);
  return Status();
}

// The next event, or nullptr with *out_of_events or a timeout.
std::unique_ptr<OwnedEvent> poll(QueueState& queue, int64_t timeout_ms, bool* out_of_events) {
  std::shared_ptr<EngineState> engine;  // released after the lock: it may be the last owner
  std::unique_ptr<OwnedEvent> event;
  std::unique_lock<std::mutex> lock(queue.mutex);
  const auto settled = [&queue] { return queue.ready() || queue.exhausted(); };
  if (timeout_ms < 0 || timeout_ms > kForeverMs) {
    queue.arrived.wait(lock, settled);
  } else if (!queue.arrived.wait_for(lock, std::chrono::milliseconds(timeout_ms), settled)) {
    return nullptr;
  }
  *out_of_events = queue.exhausted();
  if (*out_of_events) return nullptr;
  const uint64_t number = queue.tickets.front();
  const auto open = queue.open.find(number);
  event = std::make_unique<OwnedEvent>(number, open->second.stream->request_id(), open->second.user,
                                       open->second.choice);
  event->fill(*open->second.stream->next(0));
  queue.tickets.pop_front();
  if (event->finished == 0) return event;
  engine = open->second.engine.lock();
  queue.open.erase(open);
  lock.unlock();
  queue.arrived.notify_all();  // others may be waiting for what will never come
  if (engine != nullptr) {
    const std::lock_guard<std::mutex> engine_lock(engine->mutex);
    engine->ids.erase(number);
  }
  return event;
}

void close_queue(QueueState& queue) {
  std::unordered_map<uint64_t, QueueState::Open> abandoned;
  {
    const std::lock_guard<std::mutex> lock(queue.mutex);
    queue.closed = true;
    queue.tickets.clear();
    abandoned.swap(queue.open);
  }
  for (const auto& [number, open] : abandoned) {
    const std::shared_ptr<EngineState> engine = open.engine.lock();
    if (engine == nullptr) continue;
    engine->engine->cancel(open.stream->request_id());
    const std::lock_guard<std::mutex> lock(engine->mutex);
    engine->ids.erase(number);
  }
}

Json engine_info(const Engine& engine) {
  const EngineOptions& options = engine.options();
  const EngineMetrics metrics = engine.metrics();
  return {{"name", engine.name()},
          {"architecture", engine.config().architecture},
          {"vocab_size", engine.config().vocab_size},
          {"max_model_len", engine.max_model_len()},
          {"kv_pages", metrics.kv_pages_total},
          {"block_size", options.block_size},
          {"kv_memory_bytes", options.kv_memory_bytes},
          {"max_num_seqs", options.max_num_seqs},
          {"max_num_batched_tokens", options.max_num_batched_tokens},
          {"prefix_caching", options.prefix_caching},
          {"weight_bytes", metrics.weight_bytes},
          {"fingerprint", engine.fingerprint()},
          {"stop_token_ids", engine.stop_ids()},
          {"has_tokenizer", engine.tokenizer() != nullptr},
          {"has_chat_template", engine.chat_template() != nullptr},
          {"default_sampling", sampling_json(engine.default_sampling())}};
}

fathom_metrics c_metrics(const EngineMetrics& metrics) {
  fathom_metrics c;
  c.size = sizeof c;
  c.running = metrics.running;
  c.waiting = metrics.waiting;
  c.kv_pages_total = metrics.kv_pages_total;
  c.kv_pages_used = metrics.kv_pages_used;
  c.kv_memory_bytes = metrics.kv_memory_bytes;
  c.weight_bytes = metrics.weight_bytes;
  c.requests_accepted = metrics.requests_accepted;
  c.requests_refused = metrics.requests_refused;
  c.requests_stopped = metrics.requests_stopped;
  c.requests_length = metrics.requests_length;
  c.requests_cancelled = metrics.requests_cancelled;
  c.requests_failed = metrics.requests_failed;
  c.prompt_tokens = metrics.prompt_tokens;
  c.completion_tokens = metrics.completion_tokens;
  c.recomputed_tokens = metrics.recomputed_tokens;
  c.preemptions = metrics.preemptions;
  c.steps = metrics.steps;
  c.step_seconds = metrics.step_seconds;
  c.kv_pages_cached = metrics.kv_pages_cached;
  c.prefix_query_tokens = metrics.prefix_query_tokens;
  c.prefix_hit_tokens = metrics.prefix_hit_tokens;
  c.prefix_evictions = metrics.prefix_evictions;
  c.timeouts = metrics.timeouts;
  return c;
}

}  // namespace

}  // namespace fathom::capi

using namespace fathom;        // the definitions below are C's
using namespace fathom::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

fathom_status fathom_engine_open(const char* model, const char* options_json,
                                 fathom_engine** engine, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (model == nullptr || engine == nullptr) return bad_call("model or engine is NULL.");
    EngineOptions options;
    FATHOM_RETURN_IF_ERROR(parse_engine_options(options_json, &options));
    auto handle = std::make_unique<fathom_engine>();
    handle->state = std::make_shared<EngineState>();
    FATHOM_ASSIGN_OR_STATUS(handle->state->engine, Engine::open(model, options));
    handle->state->structured = std::make_unique<StructuredOutput>(*handle->state->engine);
    *engine = handle.release();
    return Status();
  });
}

void fathom_engine_close(fathom_engine* engine) {
  quietly([&] { delete engine; });
}

fathom_status fathom_engine_info(const fathom_engine* engine, fathom_buffer* json,
                                 fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (engine == nullptr || json == nullptr) return bad_call("engine or json is NULL.");
    set_buffer(json, dump(engine_info(*engine->state->engine)));
    return Status();
  });
}

fathom_status fathom_engine_metrics(const fathom_engine* engine, fathom_metrics* metrics,
                                    fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (engine == nullptr) return bad_call("engine is NULL.");
    return write_struct(c_metrics(engine->state->engine->metrics()), kMetricsSize, "fathom_metrics",
                        metrics);
  });
}

fathom_status fathom_engine_drain(fathom_engine* engine, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (engine == nullptr) return bad_call("engine is NULL.");
    engine->state->engine->drain();
    return Status();
  });
}

fathom_queue* fathom_queue_new(void) {
  try {
    return new fathom_queue{std::make_shared<QueueState>()};
  } catch (...) {
    return nullptr;
  }
}

void fathom_queue_free(fathom_queue* queue) {
  if (queue == nullptr) return;
  quietly([&] { close_queue(*queue->state); });
  delete queue;
}

fathom_status fathom_engine_submit(fathom_engine* engine, fathom_queue* queue,
                                   const fathom_request* request, uint64_t* number,
                                   fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (engine == nullptr || queue == nullptr) return bad_call("engine or queue is NULL.");
    return submit({engine->state, queue->state, request, std::nullopt, number});
  });
}

fathom_status fathom_engine_submit_n(fathom_engine* engine, fathom_queue* queue,
                                     const fathom_request* request, int32_t n, uint64_t* numbers,
                                     fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (engine == nullptr || queue == nullptr) return bad_call("engine or queue is NULL.");
    return submit({engine->state, queue->state, request, n, numbers});
  });
}

fathom_status fathom_engine_cancel(fathom_engine* engine, uint64_t number, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (engine == nullptr) return bad_call("engine is NULL.");
    std::string id;
    {
      const std::lock_guard<std::mutex> lock(engine->state->mutex);
      const auto found = engine->state->ids.find(number);
      if (found == engine->state->ids.end()) return Status();
      id = found->second;
    }
    engine->state->engine->cancel(id);
    return Status();
  });
}

fathom_status fathom_queue_poll(fathom_queue* queue, int64_t timeout_ms, const fathom_event** event,
                                fathom_buffer* error) {
  if (event != nullptr) *event = nullptr;
  bool timed_out = false;
  const fathom_status status = guarded(error, [&]() -> Status {
    if (queue == nullptr || event == nullptr) return bad_call("queue or event is NULL.");
    bool out_of_events = false;
    *event = poll(*queue->state, timeout_ms, &out_of_events).release();
    if (out_of_events) {
      return Status(Code::kNotFound, "No request of this queue has another event to come.");
    }
    timed_out = *event == nullptr;
    return Status();
  });
  return timed_out ? FATHOM_TIMEOUT : status;
}

void fathom_event_free(const fathom_event* event) {
  delete static_cast<const OwnedEvent*>(event);
}

}  // extern "C"
