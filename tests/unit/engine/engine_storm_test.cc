// Promise 2 on a small scale: a request's tokens and logprobs are the same alone and in any storm.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
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
  int terminals = 0;
  FinishReason reason = FinishReason::kError;
  int preemptions = 0;
};

Answer read_all(TokenStream& stream) {
  Answer answer;
  while (std::optional<StreamEvent> event = stream.next()) {
    answer.ids.insert(answer.ids.end(), event->token_ids.begin(), event->token_ids.end());
    for (const TokenLogprobs& entry : event->logprobs) {
      answer.logprobs.push_back(entry.logprob);
      for (const TokenLogprob& top : entry.top) answer.logprobs.push_back(top.logprob);
    }
    if (!event->finished) continue;
    ++answer.terminals;
    answer.reason = event->finish_reason;
    answer.preemptions = event->usage.preemptions;
  }
  return answer;
}

std::unique_ptr<Engine> make_engine(const EngineOptions& options, int threads) {
  EngineParts parts;
  parts.model = std::make_unique<FakeModel>(64, 512, threads);
  auto engine = Engine::assemble(std::move(parts), options);
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

Request make_request(int i) {
  Request request;
  TokenPrompt prompt(1 + (i * 37) % 90);
  for (size_t k = 0; k < prompt.size(); ++k)
    prompt[k] = static_cast<int32_t>(((k < 40 ? i % 3 : i) * 13 + k * 5) % 64);
  request.prompt = std::move(prompt);
  request.sampling.max_tokens = 1 + (i * 29) % 60;
  request.sampling.temperature = i % 3 == 0 ? 0 : 0.8;
  request.sampling.top_p = i % 4 == 1 ? 0.9 : 1;
  request.sampling.top_k = i % 5 == 2 ? 20 : 0;
  request.sampling.repetition_penalty = i % 6 == 3 ? 1.2 : 1;
  request.sampling.frequency_penalty = i % 7 == 4 ? 0.5 : 0;
  request.sampling.seed = i;
  request.sampling.logprobs = i % 2 == 0 ? 3 : -1;
  return request;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

constexpr int kRequests = 60;

TEST(EngineStorm, EveryRequestIsTheSameAloneAndUnderLoad) {
  std::vector<Answer> alone;
  {
    EngineOptions options;
    options.kv_memory_bytes = 1 << 20;
    const auto engine = make_engine(options, 1);
    for (int i = 0; i < kRequests; ++i)
      alone.push_back(read_all(**engine->submit(make_request(i))));
  }
  struct Load {
    int seqs, budget, block, pages, threads;
  };
  for (const Load& load : {Load{64, 512, 16, 64, 1}, Load{8, 8, 8, 20, 2}, Load{16, 33, 8, 24, 1},
                           Load{4, 200, 32, 7, 2}, Load{3, 3, 128, 2, 1}}) {
    EngineOptions options;
    options.max_num_seqs = load.seqs;
    options.max_num_batched_tokens = load.budget;
    options.block_size = load.block;
    options.kv_memory_bytes = static_cast<uint64_t>(load.pages) * load.block * 8;
    const auto engine = make_engine(options, load.threads);
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int i = 0; i < kRequests; ++i) {
      auto stream = engine->submit(make_request(i));
      ASSERT_TRUE(stream) << stream.error().message();
      streams.push_back(*stream);
    }
    for (int i = 0; i < kRequests; ++i) {
      const Answer answer = read_all(*streams[i]);
      EXPECT_EQ(answer.terminals, 1);
      EXPECT_EQ(answer.ids, alone[i].ids) << "request " << i;
      EXPECT_TRUE(same_bits(answer.logprobs, alone[i].logprobs)) << "request " << i;
    }
    const EngineMetrics metrics = engine->metrics();
    EXPECT_EQ(metrics.kv_pages_used, 0);
    EXPECT_EQ(metrics.running + metrics.waiting, 0);
    EXPECT_EQ(metrics.requests_length, static_cast<uint64_t>(kRequests));
    if (load.pages == 20 || load.pages == 24) {
      EXPECT_GT(metrics.preemptions, 0u);
      EXPECT_GT(metrics.recomputed_tokens, 0u);
    }
  }
}

// Several threads submit, cancel and read at once; what survives is unharmed, and each request gets
// its one terminal event.
TEST(EngineStorm, SurvivorsOfRandomCancellationAreUnharmed) {
  EngineOptions options;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 24;
  options.block_size = 8;
  options.kv_memory_bytes = 24 * 8 * 8;
  std::vector<Answer> alone;
  {
    const auto engine = make_engine(options, 1);
    for (int i = 0; i < kRequests; ++i)
      alone.push_back(read_all(**engine->submit(make_request(i))));
  }
  const auto engine = make_engine(options, 2);
  std::atomic<int> survivors{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      std::mt19937 random(static_cast<unsigned>(client));
      for (int i = client; i < kRequests; i += 4) {
        auto stream = engine->submit(make_request(i));
        ASSERT_TRUE(stream) << stream.error().message();
        const bool cancelled = random() % 3 == 0;
        const unsigned reads = cancelled ? random() % 4 : 0;
        Answer answer;
        for (unsigned k = 0; k < reads; ++k) {
          if (const auto event = (*stream)->next(); event && event->finished) answer.terminals = 1;
        }
        if (cancelled) engine->cancel((*stream)->request_id());
        const Answer rest = read_all(**stream);
        EXPECT_EQ(rest.terminals + answer.terminals, 1);
        if (cancelled) continue;
        EXPECT_EQ(rest.ids, alone[i].ids) << "request " << i;
        EXPECT_TRUE(same_bits(rest.logprobs, alone[i].logprobs)) << "request " << i;
        ++survivors;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(survivors, 20);
  engine->drain();
  const EngineMetrics metrics = engine->metrics();
  EXPECT_EQ(metrics.kv_pages_used, 0);
  EXPECT_EQ(metrics.running + metrics.waiting, 0);
  EXPECT_EQ(metrics.requests_accepted, metrics.requests_length + metrics.requests_cancelled);
}

}  // namespace
}  // namespace fathom
