// Promise 2 and the prefix cache over real models: the bits of an answer are the same with the
// cache off, on and cold, warm, shared among choices, and after preemption.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>

#include "engine/engine.h"

namespace fathom {
namespace {

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;  // of chosen tokens and the best, then of the prompt
  std::string text;
  StreamEvent last;
};

void append(const std::vector<TokenLogprobs>& entries, std::vector<float>* flat) {
  for (const TokenLogprobs& entry : entries) {
    flat->push_back(entry.logprob);
    for (const TokenLogprob& top : entry.top) flat->push_back(top.logprob);
  }
}

Answer read_all(TokenStream& stream) {
  Answer answer;
  std::vector<float> prompt;
  while (std::optional<StreamEvent> event = stream.next()) {
    answer.ids.insert(answer.ids.end(), event->token_ids.begin(), event->token_ids.end());
    answer.text += event->text;
    append(event->logprobs, &answer.logprobs);
    append(event->prompt_logprobs, &prompt);
    if (event->finished) answer.last = std::move(*event);
  }
  answer.logprobs.insert(answer.logprobs.end(), prompt.begin(), prompt.end());
  return answer;
}

void expect_same(const Answer& a, const Answer& b, const std::string& where) {
  EXPECT_EQ(a.ids, b.ids) << where;
  EXPECT_EQ(a.text, b.text) << where;
  ASSERT_EQ(a.logprobs.size(), b.logprobs.size()) << where;
  EXPECT_EQ(std::memcmp(a.logprobs.data(), b.logprobs.data(), a.logprobs.size() * sizeof(float)), 0)
      << where;
}

std::unique_ptr<Engine> open_engine(const std::string& variant, const EngineOptions& options) {
  const auto folder = std::filesystem::path(FATHOM_TEST_DATA_DIR) / "golden" / variant;
  auto engine = Engine::open(folder.string(), options);
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

constexpr int kRequests = 18;
constexpr int kChoices = 3;

// Prompts of three families that share beginnings of many lengths; some are next turns of others.
Request make_request(int i) {
  Request request;
  TokenPrompt prompt(5 + (i * 29) % 70);
  for (size_t k = 0; k < prompt.size(); ++k) {
    const size_t parting = static_cast<size_t>(i % 4) * 20 + 10;
    const int own = k >= parting ? i : 0;
    prompt[k] = static_cast<int32_t>(3 + (i % 3 * 131 + own * 37 + static_cast<int>(k) * 17) % 480);
  }
  request.prompt = std::move(prompt);
  request.sampling.max_tokens = 3 + (i * 11) % 30;
  request.sampling.temperature = i % 2 == 0 ? 0 : 0.9;
  request.sampling.seed = i;
  request.sampling.logprobs = 3;
  request.sampling.ignore_eos = true;
  if (i % 6 >= 4) request.prompt_logprobs = 2;
  if (i % 9 == 8) request.cache_salt = "apart";
  return request;
}

struct Load {
  bool caching;
  int seqs, budget, block, tokens, threads;
};
std::string name_of(const Load& load, int i) {
  return "request " + std::to_string(i) + (load.caching ? ", caching" : "") + ", seqs " +
         std::to_string(load.seqs) + ", budget " + std::to_string(load.budget) + ", block " +
         std::to_string(load.block) + ", tokens " + std::to_string(load.tokens);
}

class PrefixBits : public ::testing::TestWithParam<const char*> {
 protected:
  // All requests alone, without a cache: what everything else must equal. Choice c of request i is
  // at i * kChoices + c.
  void compute_references() {
    EngineOptions plain;
    plain.prefix_caching = false;
    plain.kv_memory_bytes = 64 << 20;
    plain.max_model_len = 160;
    const auto engine = open_engine(GetParam(), plain);
    bytes_per_token_ = engine->options().kv_memory_bytes /
                       static_cast<size_t>(engine->metrics().kv_pages_total * plain.block_size);
    for (int i = 0; i < kRequests; ++i) {
      for (int c = 0; c < kChoices; ++c) {
        Request request = make_request(i);
        request.sampling.seed = choice_seed(static_cast<uint64_t>(i), c);
        references_.push_back(read_all(**engine->submit(std::move(request))));
      }
    }
  }

  // The storm twice over one engine: cold, then warm.
  void run(const Load& load) {
    EngineOptions options;
    options.prefix_caching = load.caching;
    options.max_num_seqs = load.seqs;
    options.max_num_batched_tokens = load.budget;
    options.block_size = load.block;
    options.kv_memory_bytes = bytes_per_token_ * static_cast<size_t>(load.tokens);
    options.max_model_len = 110;
    options.model.threads = load.threads;
    const auto engine = open_engine(GetParam(), options);
    for (int round = 0; round < 2; ++round) {
      std::vector<std::vector<std::shared_ptr<TokenStream>>> streams;
      for (int i = 0; i < kRequests; ++i) {
        auto choices = engine->submit_many(make_request(i), i % 2 == 0 ? kChoices : 1);
        ASSERT_TRUE(choices) << choices.error().message();
        streams.push_back(std::move(*choices));
      }
      for (int i = 0; i < kRequests; ++i) {
        for (size_t c = 0; c < streams[i].size(); ++c) {
          const Answer answer = read_all(*streams[i][c]);
          cached_tokens_ += answer.last.usage.cached_prompt_tokens;
          expect_same(answer, references_[i * kChoices + c], name_of(load, i));
        }
      }
    }
    const EngineMetrics metrics = engine->metrics();
    EXPECT_EQ(metrics.kv_pages_used, 0);
    if (!load.caching) {
      EXPECT_EQ(metrics.kv_pages_cached, 0);
    }
    preemptions_ += metrics.preemptions;
    evictions_ += metrics.prefix_evictions;
  }

  std::vector<Answer> references_;
  size_t bytes_per_token_ = 0;
  int64_t cached_tokens_ = 0;
  uint64_t preemptions_ = 0;
  uint64_t evictions_ = 0;
};

TEST_P(PrefixBits, AreTheSameHoweverTheyComeAbout) {
  compute_references();
  for (const Load& load : {Load{true, 16, 512, 16, 8192, 2}, Load{true, 8, 19, 8, 168, 2},
                           Load{true, 5, 64, 32, 224, 1}, Load{false, 6, 33, 8, 168, 2},
                           Load{true, 6, 7, 128, 256, 1}}) {
    run(load);
  }
  std::mt19937 random(17);
  for (int i = 0; i < 4; ++i) {
    Load load{};
    load.caching = i != 1;
    load.seqs = 1 + static_cast<int>(random() % 12);
    load.budget = load.seqs + static_cast<int>(random() % 60);
    load.block = 8 << (random() % 3);
    load.tokens = 128 + static_cast<int>(random() % 300);
    load.threads = 1 + static_cast<int>(random() % 2);
    run(load);
  }
  EXPECT_GT(cached_tokens_, 1000);
  EXPECT_GT(preemptions_, 0u);
  EXPECT_GT(evictions_, 0u);
}

INSTANTIATE_TEST_SUITE_P(Variants, PrefixBits, ::testing::Values("v3", "v2-lite", "v1-dense"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace fathom
