// The engine's prefix cache, choices, prompt scores, deadlines and token masks over a fake model.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "engine/engine.h"
#include "engine/parts.h"
#include "tests/support/fake_model.h"

namespace fathom {
namespace {

using testing::FakeModel;

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::vector<TokenLogprobs> prompt;
  StreamEvent last;
};

Answer read_all(TokenStream& stream) {
  Answer answer;
  bool first = true;
  while (std::optional<StreamEvent> event = stream.next()) {
    EXPECT_TRUE(first || event->prompt_logprobs.empty());
    if (first) answer.prompt = event->prompt_logprobs;
    first = false;
    answer.ids.insert(answer.ids.end(), event->token_ids.begin(), event->token_ids.end());
    for (const TokenLogprobs& entry : event->logprobs) {
      answer.logprobs.push_back(entry.logprob);
      for (const TokenLogprob& top : entry.top) answer.logprobs.push_back(top.logprob);
    }
    if (event->finished) answer.last = std::move(*event);
  }
  EXPECT_TRUE(answer.last.finished);
  return answer;
}

class EngineCacheTest : public ::testing::Test {
 protected:
  void open(EngineOptions options = {}) {
    EngineParts parts;
    auto model = std::make_unique<FakeModel>();
    model_ = model.get();
    parts.model = std::move(model);
    parts.generation.eos_token_ids = {kEos};
    if (options.kv_memory_bytes == 0) options.kv_memory_bytes = 1 << 20;
    auto engine = Engine::assemble(std::move(parts), options);
    ASSERT_TRUE(engine) << engine.error().message();
    engine_ = std::move(*engine);
  }
  static Request request(int32_t prompt_tokens, int32_t max_tokens) {
    Request request;
    TokenPrompt prompt(prompt_tokens);
    for (int32_t i = 0; i < prompt_tokens; ++i) prompt[i] = i * 7 % 60;
    request.prompt = std::move(prompt);
    request.sampling.max_tokens = max_tokens;
    request.sampling.seed = 5;
    request.sampling.logprobs = 2;
    request.sampling.logit_bias = {{kEos, -1000.0f}};
    return request;
  }
  Answer run(Request r) {
    auto stream = engine_->submit(std::move(r));
    EXPECT_TRUE(stream) << stream.error().message();
    return read_all(**stream);
  }
  void expect_refused(const Request& request, const std::string& part) {
    const auto refused = engine_->submit(request);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
    EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
  }
  static void expect_same(const Answer& a, const Answer& b) {
    EXPECT_EQ(a.ids, b.ids);
    ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
    EXPECT_EQ(std::memcmp(a.logprobs.data(), b.logprobs.data(), a.logprobs.size() * sizeof(float)),
              0);
  }

  static constexpr int32_t kEos = 63;
  FakeModel* model_ = nullptr;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineCacheTest, WarmAndColdAreTheSameAndCounted) {
  EngineOptions off;
  off.prefix_caching = false;
  open(off);
  const Answer alone = run(request(50, 30));
  EXPECT_EQ(run(request(50, 30)).last.usage.cached_prompt_tokens, 0);
  EXPECT_EQ(engine_->metrics().kv_pages_cached, 0);

  open();
  const Answer cold = run(request(50, 30));
  const Answer warm = run(request(50, 30));
  expect_same(cold, alone);
  expect_same(warm, alone);
  EXPECT_EQ(cold.last.usage.cached_prompt_tokens, 0);
  EXPECT_EQ(warm.last.usage.cached_prompt_tokens, 48);
  EXPECT_EQ(warm.last.usage.prompt_tokens, 50);
  EngineMetrics metrics = engine_->metrics();
  EXPECT_EQ(metrics.prefix_query_tokens, 100u);
  EXPECT_EQ(metrics.prefix_hit_tokens, 48u);
  EXPECT_EQ(metrics.prompt_tokens, 100u);
  EXPECT_EQ(metrics.kv_pages_used, 0);
  EXPECT_EQ(metrics.kv_pages_cached, 4);  // 79 positions were computed
  EXPECT_EQ(metrics.prefix_evictions, 0u);

  Request salted = request(50, 30);
  salted.cache_salt = "somebody";
  const Answer other = run(salted);
  expect_same(other, alone);
  EXPECT_EQ(other.last.usage.cached_prompt_tokens, 0);

  // The next turn of the conversation finds prompt and answer.
  Request turn = request(50, 5);
  TokenPrompt& ids = std::get<TokenPrompt>(turn.prompt);
  ids.insert(ids.end(), alone.ids.begin(), alone.ids.end());
  ids.push_back(3);
  EXPECT_EQ(run(turn).last.usage.cached_prompt_tokens, 64);
}

TEST_F(EngineCacheTest, CacheMakesRoomWhenItIsFull) {
  EngineOptions small;
  small.kv_memory_bytes = 6 * 16 * 8;  // six pages
  open(small);
  for (int i = 0; i < 8; ++i) {
    Request r = request(40, 20);
    std::get<TokenPrompt>(r.prompt)[0] = i;
    EXPECT_EQ(run(r).ids.size(), 20u);
  }
  const EngineMetrics metrics = engine_->metrics();
  EXPECT_EQ(metrics.kv_pages_used, 0);
  EXPECT_GT(metrics.prefix_evictions, 0u);
  EXPECT_EQ(metrics.preemptions, 0u);
}

TEST_F(EngineCacheTest, ChoicesAreTheirOwnRequestsWithOnePrompt) {
  for (const bool caching : {true, false}) {
    EngineOptions options;
    options.prefix_caching = caching;
    options.max_num_batched_tokens = 20;
    options.max_num_seqs = 8;
    open(options);
    Request r = request(70, 12);
    r.id = "mine";
    r.sampling.temperature = 1.5;
    auto streams = engine_->submit_many(r, 5);
    ASSERT_TRUE(streams) << streams.error().message();
    ASSERT_EQ(streams->size(), 5u);
    std::vector<Answer> answers;
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ((*streams)[i]->request_id(), "mine-" + std::to_string(i));
      answers.push_back(read_all(*(*streams)[i]));
      const Usage& usage = answers[i].last.usage;
      EXPECT_EQ(usage.seed, choice_seed(5, i));
      EXPECT_EQ(usage.cached_prompt_tokens, i == 0 ? 0 : 64);
    }
    EXPECT_EQ(choice_seed(5, 0), 5u);
    EXPECT_NE(answers[1].ids, answers[0].ids);
    const EngineMetrics metrics = engine_->metrics();
    EXPECT_EQ(metrics.kv_pages_used, 0);
    EXPECT_EQ(metrics.requests_accepted, 5u);
    for (int i = 0; i < 5; ++i) {
      Request single = r;
      single.sampling.seed = choice_seed(5, i);
      expect_same(run(single), answers[i]);
    }
  }
}

TEST_F(EngineCacheTest, AllChoicesAreAcceptedOrNone) {
  EngineOptions options;
  options.max_num_seqs = 1;
  options.max_queued_requests = 2;
  open(options);
  EXPECT_FALSE(engine_->submit_many(request(4, 2), 4));
  EXPECT_EQ(engine_->metrics().waiting, 0);
  for (const int n : {0, -1, 129}) {
    const auto refused = engine_->submit_many(request(4, 2), n);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("between 1 and 128"), std::string::npos);
  }
  auto streams = engine_->submit_many(request(4, 2), 3);
  ASSERT_TRUE(streams);
  for (const auto& stream : *streams) EXPECT_EQ(read_all(*stream).ids.size(), 2u);
}

// What a token's score is does not depend on whether it was chosen or given.
TEST_F(EngineCacheTest, PromptScoresAreThoseOfTheSameTokensChosen) {
  EngineOptions options;
  options.max_num_batched_tokens = 13;
  options.max_num_seqs = 4;
  open(options);
  const Answer chosen = run(request(20, 30));
  Request scoring = request(20, 4);
  TokenPrompt& ids = std::get<TokenPrompt>(scoring.prompt);
  ids.insert(ids.end(), chosen.ids.begin(), chosen.ids.end());
  scoring.prompt_logprobs = 2;
  for (const int32_t max_tokens : {4, 0}) {
    scoring.sampling.max_tokens = max_tokens;
    const Answer scored = run(scoring);
    EXPECT_EQ(scored.ids.size(), static_cast<size_t>(max_tokens));
    EXPECT_EQ(scored.last.finish_reason, FinishReason::kLength);
    EXPECT_EQ(scored.last.usage.completion_tokens, max_tokens);
    EXPECT_EQ(scored.last.usage.prompt_tokens, 50);
    EXPECT_EQ(scored.last.usage.cached_prompt_tokens, 0);
    ASSERT_EQ(scored.prompt.size(), 50u);
    EXPECT_TRUE(scored.prompt[0].top.empty());
    for (size_t i = 0; i < 30; ++i) {
      const TokenLogprobs& entry = scored.prompt[20 + i];
      ASSERT_EQ(entry.top.size(), 2u);
      const float values[] = {entry.logprob, entry.top[0].logprob, entry.top[1].logprob};
      EXPECT_EQ(std::memcmp(values, &chosen.logprobs[i * 3], sizeof values), 0) << i;
    }
  }
  scoring.sampling.max_tokens = 1;
  auto choices = engine_->submit_many(scoring, 3);
  ASSERT_TRUE(choices) << choices.error().message();
  for (const auto& stream : *choices) {
    const Answer answer = read_all(*stream);
    ASSERT_EQ(answer.prompt.size(), 50u);
    EXPECT_EQ(answer.prompt[49].logprob, chosen.logprobs[29 * 3]);
  }
  Request one = request(1, 0);
  one.prompt_logprobs = 0;
  EXPECT_EQ(run(one).prompt.size(), 1u);
  EXPECT_EQ(engine_->metrics().kv_pages_used, 0);

  expect_refused(request(4, 0), "max_tokens");
  one.prompt_logprobs = -2;
  expect_refused(one, "prompt_logprobs");
  one.prompt_logprobs = 65;
  expect_refused(one, "prompt_logprobs");
}

TEST_F(EngineCacheTest, ScoringSurvivesPreemptionAndBadLogits) {
  EngineOptions tight;
  tight.block_size = 8;
  tight.kv_memory_bytes = 9 * 8 * 8;
  tight.max_num_batched_tokens = 16;
  tight.max_num_seqs = 4;
  open(tight);
  Request scoring = request(40, 20);
  scoring.prompt_logprobs = 1;
  const Answer alone = run(scoring);
  model_->close_gate();
  auto first = engine_->submit(request(20, 50));
  auto second = engine_->submit(scoring);
  model_->open_gate();
  const Answer loaded = read_all(**second);
  read_all(**first);
  EXPECT_GT(engine_->metrics().preemptions, 0u);
  expect_same(loaded, alone);
  ASSERT_EQ(loaded.prompt.size(), 40u);
  for (size_t i = 0; i < 40; ++i) EXPECT_EQ(loaded.prompt[i].logprob, alone.prompt[i].logprob);

  model_->nan_on_token = 14;  // the prompt's third
  EXPECT_EQ(run(scoring).last.finish_reason, FinishReason::kError);
  EXPECT_EQ(engine_->metrics().kv_pages_used, 0);
}

TEST_F(EngineCacheTest, TimeEndsRequestsThatRunAndThatWait) {
  EngineOptions options;
  options.max_num_seqs = 1;
  open(options);
  model_->close_gate();
  Request running = request(10, 400);
  running.timeout_seconds = 0.02;
  auto first = engine_->submit(running);
  auto second = engine_->submit(running);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  model_->open_gate();
  for (const auto& stream : {*first, *second}) {
    const Answer answer = read_all(*stream);
    EXPECT_EQ(answer.last.finish_reason, FinishReason::kError);
    EXPECT_EQ(answer.last.error.code(), Code::kTimeout);
    EXPECT_NE(answer.last.error.message().find("0.020"), std::string::npos);
  }
  const EngineMetrics metrics = engine_->metrics();
  EXPECT_EQ(metrics.timeouts, 2u);
  EXPECT_EQ(metrics.requests_failed, 2u);
  EXPECT_EQ(metrics.kv_pages_used, 0);
  running.timeout_seconds = 1e6;
  EXPECT_EQ(run(running).ids.size(), 400u);
  for (const double bad : {-1.0, std::nan(""), 1.0 / 0.0}) {
    running.timeout_seconds = bad;
    expect_refused(running, "timeout_seconds");
  }

  options.request_timeout_seconds = 0.001;
  open(options);
  model_->close_gate();
  running.timeout_seconds = 1000;
  auto third = engine_->submit(running);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  model_->open_gate();
  EXPECT_EQ(read_all(**third).last.error.code(), Code::kTimeout);
}

// Allows the ids of a script one after the other, then end of sequence.
class Script : public TokenMask {
 public:
  Script(std::vector<int32_t> ids, int32_t eos) : ids_(std::move(ids)), eos_(eos) {}
  bool active() const override { return true; }
  void allowed(std::vector<uint32_t>* bitmask) override {
    std::fill(bitmask->begin(), bitmask->end(), 0);
    const int32_t id = finished() ? eos_ : ids_[at_];
    (*bitmask)[id / 32] |= 1u << (id % 32);
  }
  Status accept(int32_t id) override {
    ++at_;
    return id == fail_on ? Status(Code::kInternal, "The script failed.") : Status();
  }
  bool finished() const override { return at_ >= ids_.size(); }
  std::shared_ptr<TokenMask> clone() const override { return std::make_shared<Script>(*this); }
  int32_t fail_on = -1;

 private:
  std::vector<int32_t> ids_;
  int32_t eos_;
  size_t at_ = 0;
};

TEST_F(EngineCacheTest, AMaskDecidesWhatMayBeChosenAndWhenItEnds) {
  open();
  const std::vector<int32_t> script = {1, 40, 33, 2};
  Request r = request(10, 20);
  r.sampling.min_tokens = 10;  // cannot be had: the structure ends before
  for (const double temperature : {0.0, 1.0}) {
    r.sampling.temperature = temperature;
    r.token_mask = std::make_shared<Script>(script, kEos);
    auto streams = engine_->submit_many(r, 3);
    ASSERT_TRUE(streams);
    for (const auto& stream : *streams) {
      const Answer answer = read_all(*stream);
      EXPECT_EQ(answer.ids, (std::vector<int32_t>{1, 40, 33, 2, kEos}));
      EXPECT_EQ(answer.last.finish_reason, FinishReason::kStop);
    }
  }
  auto failing = std::make_shared<Script>(script, kEos);
  failing->fail_on = 33;
  r.token_mask = failing;
  const Answer failed = run(r);
  EXPECT_EQ(failed.ids, (std::vector<int32_t>{1, 40, 33}));
  EXPECT_EQ(failed.last.finish_reason, FinishReason::kError);
  EXPECT_EQ(failed.last.error.message(), "The script failed.");
  r.sampling.ignore_eos = true;
  expect_refused(r, "ignore_eos");
}

}  // namespace
}  // namespace fathom
