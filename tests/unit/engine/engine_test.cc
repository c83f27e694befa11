// The engine over a fake model: events, stops, limits, failures, lifecycle.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "engine/parts.h"
#include "tests/support/fake_model.h"

namespace fathom {
namespace {

using testing::FakeModel;

struct Answer {
  std::vector<int32_t> ids;
  std::vector<TokenLogprobs> logprobs;
  StreamEvent last;
};

Answer read_all(TokenStream& stream) {
  Answer answer;
  while (std::optional<StreamEvent> event = stream.next()) {
    answer.ids.insert(answer.ids.end(), event->token_ids.begin(), event->token_ids.end());
    answer.logprobs.insert(answer.logprobs.end(), event->logprobs.begin(), event->logprobs.end());
    EXPECT_FALSE(answer.last.finished);
    if (event->finished) answer.last = std::move(*event);
  }
  EXPECT_TRUE(answer.last.finished);
  EXPECT_EQ(answer.last.usage.completion_tokens, static_cast<int32_t>(answer.ids.size()));
  return answer;
}

class EngineTest : public ::testing::Test {
 protected:
  void open(EngineOptions options = {}) {
    EngineParts parts;
    parts.name = "fake";
    auto model = std::make_unique<FakeModel>();
    model_ = model.get();
    parts.model = std::move(model);
    parts.generation.eos_token_ids = stop_ids_;
    if (options.kv_memory_bytes == 0) options.kv_memory_bytes = 1 << 20;
    auto engine = Engine::assemble(std::move(parts), options);
    ASSERT_TRUE(engine) << engine.error().message();
    engine_ = std::move(*engine);
  }
  static Request request(int32_t seed, int32_t prompt_tokens, int32_t max_tokens) {
    Request request;
    TokenPrompt prompt(prompt_tokens);
    for (int32_t i = 0; i < prompt_tokens; ++i) prompt[i] = (seed * 31 + i * 7) % 60;
    request.prompt = std::move(prompt);
    request.sampling.max_tokens = max_tokens;
    request.sampling.seed = seed;
    return request;
  }
  std::shared_ptr<TokenStream> submit(Request request) {
    auto stream = engine_->submit(std::move(request));
    EXPECT_TRUE(stream) << stream.error().message();
    return stream ? *stream : nullptr;
  }
  Answer run(Request r) { return read_all(*submit(std::move(r))); }
  void expect_refused(Request request, Code code, const std::string& part) {
    const auto refused = engine_->submit(std::move(request));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), code);
    EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
  }
  // A token that the model gives to this request, and its index in the answer.
  static std::pair<int32_t, size_t> unique_token(const Answer& answer) {
    for (size_t i = 2; i < answer.ids.size(); ++i) {
      if (std::count(answer.ids.begin(), answer.ids.end(), answer.ids[i]) == 1) {
        return {answer.ids[i], i};
      }
    }
    return {-1, 0};
  }

  std::vector<int32_t> stop_ids_;
  FakeModel* model_ = nullptr;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, RunsToMaxTokensWithUsage) {
  open();
  const Answer answer = run(request(1, 5, 9));
  EXPECT_EQ(answer.ids.size(), 9u);
  EXPECT_EQ(answer.last.finish_reason, FinishReason::kLength);
  EXPECT_EQ(answer.last.usage.prompt_tokens, 5);
  EXPECT_EQ(answer.last.usage.seed, 1u);
  EXPECT_GE(answer.last.usage.queue_seconds, 0);
  EXPECT_GE(answer.last.usage.prefill_seconds, 0);
  EXPECT_GE(answer.last.usage.decode_seconds, 0);
  EXPECT_EQ(engine_->fingerprint(), "fp_0000000000001234");
  const EngineMetrics metrics = engine_->metrics();
  EXPECT_EQ(metrics.prompt_tokens, 5u);
  EXPECT_EQ(metrics.completion_tokens, 9u);
  EXPECT_EQ(metrics.requests_length, 1u);
  EXPECT_EQ(metrics.steps, 9u);
  EXPECT_EQ(metrics.kv_pages_used, 0);
}

TEST_F(EngineTest, ReportsTheSeedItDrewAndRepeatsIt) {
  open();
  Request first = request(1, 5, 20);
  first.sampling.seed.reset();
  const Answer a = run(first);
  const Answer b = run(first);
  EXPECT_NE(a.last.usage.seed, b.last.usage.seed);
  EXPECT_NE(a.ids, b.ids);
  first.sampling.seed = a.last.usage.seed;
  EXPECT_EQ(run(first).ids, a.ids);
}

TEST_F(EngineTest, StopsAtStopIdsAndEmitsThem) {
  open();
  const Answer free_run = run(request(2, 5, 60));
  const auto [stop, index] = unique_token(free_run);
  ASSERT_GE(stop, 0);
  Request stopping = request(2, 5, 60);
  stopping.sampling.stop_token_ids = {stop};
  const Answer answer = run(stopping);
  EXPECT_EQ(answer.ids, std::vector<int32_t>(free_run.ids.begin(),
                                             free_run.ids.begin() + static_cast<long>(index) + 1));
  EXPECT_EQ(answer.last.finish_reason, FinishReason::kStop);
  EXPECT_EQ(answer.last.stop_token_id, stop);

  stopping.sampling.min_tokens = static_cast<int32_t>(index) + 5;
  const Answer longer = run(stopping);
  EXPECT_GT(longer.ids.size(), index + 5);
  EXPECT_EQ(std::count(longer.ids.begin(), longer.ids.begin() + static_cast<long>(index) + 5, stop),
            0);
}

TEST_F(EngineTest, EndOfSequenceStopsUnlessIgnored) {
  open();
  const auto [stop, index] = unique_token(run(request(3, 5, 60)));
  stop_ids_ = {stop};
  open();
  EXPECT_EQ(engine_->stop_ids(), std::vector<int32_t>{stop});
  const Answer answer = run(request(3, 5, 60));
  EXPECT_EQ(answer.ids.size(), index + 1);
  EXPECT_EQ(answer.last.stop_token_id, stop);
  Request ignoring = request(3, 5, 60);
  ignoring.sampling.ignore_eos = true;
  const Answer all = run(ignoring);
  EXPECT_EQ(all.ids.size(), 60u);
  EXPECT_EQ(std::count(all.ids.begin(), all.ids.end(), stop), 0);
}

TEST_F(EngineTest, RefusesWithNumbersWhatCannotRun) {
  EngineOptions options;
  options.kv_memory_bytes = 8 * 16 * 4;  // four pages of 16 tokens
  open(options);
  EXPECT_EQ(engine_->max_model_len(), 64);
  expect_refused(request(1, 60, 10), Code::kInvalidArgument, "64");
  expect_refused(request(1, 64, -1), Code::kInvalidArgument, "64");
  expect_refused(request(1, 0, 5), Code::kInvalidArgument, "no tokens");
  Request bad = request(1, 4, 5);
  bad.prompt = TokenPrompt{1, 64};
  expect_refused(bad, Code::kInvalidArgument, "Prompt token 1 is 64");
  bad.prompt = TokenPrompt{-1};
  expect_refused(bad, Code::kInvalidArgument, "Prompt token 0 is -1");
  bad.prompt = TextPrompt{"hello"};
  expect_refused(bad, Code::kInvalidArgument, "tokenizer.json");
  bad.prompt = ChatPrompt{"[]", "", ""};
  EXPECT_FALSE(engine_->submit(bad));
  bad = request(1, 4, 5);
  bad.sampling.top_p = 7;
  expect_refused(bad, Code::kInvalidArgument, "top_p");
  bad = request(1, 4, 5);
  bad.sampling.stop = {"x"};
  expect_refused(bad, Code::kInvalidArgument, "stop_token_ids");
  EXPECT_EQ(engine_->metrics().requests_refused, 9u);
  EXPECT_EQ(run(request(1, 4, -1)).ids.size(), 60u);
}

TEST_F(EngineTest, RefusesDuplicateIdsAndAFullQueue) {
  EngineOptions options;
  options.max_num_seqs = 1;
  options.max_queued_requests = 1;
  open(options);
  model_->close_gate();
  Request first = request(1, 4, 5);
  first.id = "mine";
  const auto stream = submit(first);
  EXPECT_EQ(stream->request_id(), "mine");
  expect_refused(first, Code::kInvalidArgument, "\"mine\"");
  const auto second = submit(request(2, 4, 5));
  expect_refused(request(3, 4, 5), Code::kUnavailable, "max_queued_requests is 1");
  model_->open_gate();
  read_all(*stream);
  read_all(*second);
  EXPECT_EQ(run(first).ids.size(), 5u);  // the id is free again
}

TEST_F(EngineTest, AFailingStepEndsItsRequestsAndNoOthers) {
  open();
  model_->fail_on_token = 61;
  model_->close_gate();
  Request bad = request(1, 4, 5);
  bad.prompt = TokenPrompt{1, 61};
  const auto failing = submit(bad);
  model_->open_gate();
  const Answer failed = read_all(*failing);
  EXPECT_EQ(failed.last.finish_reason, FinishReason::kError);
  EXPECT_EQ(failed.last.error.message(), "The fake failed.");
  model_->fail_on_token = -1;
  EXPECT_EQ(run(request(2, 4, 5)).ids.size(), 5u);
  EXPECT_EQ(engine_->metrics().requests_failed, 1u);
  EXPECT_EQ(engine_->metrics().kv_pages_used, 0);
}

TEST_F(EngineTest, NanLogitsEndOnlyTheRequestThatHasThem) {
  open();
  model_->nan_on_token = 62;
  model_->close_gate();
  Request bad = request(1, 4, 5);
  bad.prompt = TokenPrompt{1, 62};
  const auto failing = submit(bad);
  Request good = request(2, 4, 8);
  good.sampling.logit_bias = {{62, -1000.0f}};
  const auto running = submit(good);
  model_->open_gate();
  const Answer failed = read_all(*failing);
  EXPECT_EQ(failed.last.finish_reason, FinishReason::kError);
  EXPECT_NE(failed.last.error.message().find("nan"), std::string::npos)
      << failed.last.error.message();
  EXPECT_EQ(read_all(*running).ids.size(), 8u);
}

TEST_F(EngineTest, CancelsInTheQueueInTheMiddleAndTooLate) {
  EngineOptions options;
  options.max_num_seqs = 1;
  open(options);
  model_->close_gate();
  Request first = request(1, 40, 100);
  first.id = "a";
  Request second = request(2, 40, 100);
  second.id = "b";
  const auto a = submit(first);
  const auto b = submit(second);
  engine_->cancel("b");
  model_->open_gate(3);
  const Answer queued = read_all(*b);
  EXPECT_EQ(queued.last.finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(queued.ids.size(), 0u);
  EXPECT_TRUE(queued.last.error.ok());
  engine_->cancel("a");
  engine_->cancel("a");
  model_->open_gate();
  EXPECT_EQ(read_all(*a).last.finish_reason, FinishReason::kCancelled);
  engine_->cancel("a");
  engine_->cancel("never was");
  EXPECT_EQ(engine_->metrics().kv_pages_used, 0);
  EXPECT_EQ(engine_->metrics().requests_cancelled, 2u);
  EXPECT_EQ(run(request(3, 4, 5)).ids.size(), 5u);
}

TEST_F(EngineTest, AReaderThatFallsBehindLosesItsRequest) {
  open();
  Request slow = request(1, 4, 50);
  slow.stream_capacity = 3;
  const auto stream = submit(slow);
  EXPECT_EQ(run(request(2, 4, 100)).ids.size(), 100u);  // others go on
  const Answer answer = read_all(*stream);
  EXPECT_EQ(answer.last.finish_reason, FinishReason::kError);
  EXPECT_EQ(answer.last.error.code(), Code::kUnavailable);
}

TEST_F(EngineTest, DrainFinishesWhatRunsAndRefusesTheRest) {
  open();
  const auto stream = submit(request(1, 4, 200));
  engine_->drain();
  EXPECT_TRUE(stream->finished());
  EXPECT_EQ(read_all(*stream).ids.size(), 200u);
  expect_refused(request(2, 4, 5), Code::kUnavailable, "shutting down");
}

TEST_F(EngineTest, ClosingEndsLiveRequests) {
  EngineOptions options;
  options.max_num_seqs = 2;
  open(options);
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(submit(request(i, 30, 400)));
  while (engine_->metrics().completion_tokens == 0) std::this_thread::yield();
  engine_.reset();
  int cancelled = 0;
  for (const auto& stream : streams) {
    const FinishReason reason = read_all(*stream).last.finish_reason;
    EXPECT_TRUE(reason == FinishReason::kCancelled || reason == FinishReason::kLength);
    cancelled += reason == FinishReason::kCancelled;
  }
  EXPECT_GT(cancelled, 0);  // 20,000 steps do not pass between the first token and the end
}

TEST_F(EngineTest, CallsTheListenerForEachEvent) {
  open();
  std::atomic<int> events{0};
  Request listening = request(1, 4, 7);
  listening.on_event = [&events] { ++events; };
  run(listening);
  engine_->drain();
  EXPECT_EQ(events, 7);
}

TEST_F(EngineTest, PriorityGoesFirst) {
  EngineOptions options;
  options.max_num_seqs = 1;
  open(options);
  model_->close_gate();
  std::vector<int> order;
  const auto add = [&](int name, int priority) {
    Request r = request(name, 4, 3);
    r.priority = priority;
    r.on_event = [&order, name] {
      if (order.empty() || order.back() != name) order.push_back(name);
    };
    submit(r);
  };
  add(0, 0);
  while (engine_->metrics().running == 0 && engine_->metrics().steps == 0 &&
         engine_->metrics().waiting == 0) {
    std::this_thread::yield();
  }
  add(1, 5);
  add(2, -5);
  add(3, 5);
  model_->open_gate();
  engine_->drain();
  ASSERT_EQ(order.size(), 4u);
  // Whether the first one had started when the others came is up to the threads.
  EXPECT_LT(std::find(order.begin(), order.end(), 2), std::find(order.begin(), order.end(), 1));
  EXPECT_LT(std::find(order.begin(), order.end(), 1), std::find(order.begin(), order.end(), 3));
}

TEST_F(EngineTest, RefusesBadOptions) {
  const auto refused = [](auto change, const std::string& part) {
    EngineOptions options;
    options.kv_memory_bytes = 1 << 20;
    change(options);
    EngineParts parts;
    parts.model = std::make_unique<FakeModel>();
    const auto engine = Engine::assemble(std::move(parts), options);
    ASSERT_FALSE(engine) << part;
    EXPECT_NE(engine.error().message().find(part), std::string::npos) << engine.error().message();
  };
  refused([](auto& o) { o.block_size = 12; }, "block_size is 12");
  refused([](auto& o) { o.max_num_seqs = 0; }, "max_num_seqs is 0");
  refused([](auto& o) { o.max_num_batched_tokens = -1; }, "max_num_batched_tokens is -1");
  refused([](auto& o) { o.max_queued_requests = 0; }, "max_queued_requests");
  refused([](auto& o) { o.max_model_len = 513; }, "512");
  refused([](auto& o) { o.max_model_len = 512, o.kv_memory_bytes = 8 * 16 * 4; }, "max_model_len");
  refused([](auto& o) { o.kv_memory_bytes = 10; }, "KV cache");
  refused([](auto& o) { o.kv_memory_bytes = uint64_t{1} << 60; }, "available");
}

TEST_F(EngineTest, FewerRowsThanSequencesLowersTheSequences) {
  EngineOptions options;
  options.max_num_seqs = 64;
  options.max_num_batched_tokens = 4;
  open(options);
  EXPECT_EQ(engine_->options().max_num_seqs, 4);
  EXPECT_EQ(run(request(1, 30, 5)).ids.size(), 5u);
}

}  // namespace
}  // namespace fathom
