// The engine over real models: reference continuations, and equal bits alone, batched and
// preempted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/engine.h"
#include "weights/checkpoint.h"

namespace fathom {
namespace {

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::string text;
  StreamEvent last;
};

Answer read_all(TokenStream& stream) {
  Answer answer;
  while (std::optional<StreamEvent> event = stream.next()) {
    answer.ids.insert(answer.ids.end(), event->token_ids.begin(), event->token_ids.end());
    answer.text += event->text;
    for (const TokenLogprobs& entry : event->logprobs) {
      answer.logprobs.push_back(entry.logprob);
      for (const TokenLogprob& top : entry.top) answer.logprobs.push_back(top.logprob);
    }
    if (event->finished) answer.last = std::move(*event);
  }
  return answer;
}

std::string folder(const std::string& variant) {
  return (std::filesystem::path(FATHOM_TEST_DATA_DIR) / "golden" / variant).string();
}

std::unique_ptr<Engine> open_engine(const std::string& variant, const EngineOptions& options) {
  auto engine = Engine::open(folder(variant), options);
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

Request make_request(int i) {
  Request request;
  TokenPrompt prompt(1 + (i * 37) % 70);
  for (size_t k = 0; k < prompt.size(); ++k) {
    prompt[k] = static_cast<int32_t>(3 + (i * 131 + k * 17) % 480);
  }
  request.prompt = std::move(prompt);
  request.sampling.max_tokens = 3 + (i * 11) % 30;
  request.sampling.temperature = i % 2 == 0 ? 0 : 0.9;
  request.sampling.top_p = i % 4 == 1 ? 0.9 : 1;
  request.sampling.seed = i;
  request.sampling.logprobs = 4;
  request.sampling.ignore_eos = true;
  return request;
}

class EngineModel : public ::testing::TestWithParam<const char*> {};

TEST_P(EngineModel, LoadChangesNoBit) {
  constexpr int kRequests = 16;
  EngineOptions roomy;
  roomy.kv_memory_bytes = 64 << 20;
  roomy.max_model_len = 160;
  roomy.model.threads = 1;
  std::vector<Answer> alone;
  size_t bytes_per_token = 0;
  {
    const auto engine = open_engine(GetParam(), roomy);
    bytes_per_token = engine->options().kv_memory_bytes /
                      static_cast<size_t>(engine->metrics().kv_pages_total * roomy.block_size);
    for (int i = 0; i < kRequests; ++i)
      alone.push_back(read_all(**engine->submit(make_request(i))));
  }
  struct Load {
    int seqs, budget, block, tokens, threads;
  };
  uint64_t preemptions = 0;
  for (const Load& load : {Load{16, 512, 16, 4096, 2}, Load{8, 19, 8, 168, 2},
                           Load{5, 64, 32, 224, 1}, Load{6, 7, 128, 256, 2}}) {
    EngineOptions options;
    options.max_num_seqs = load.seqs;
    options.max_num_batched_tokens = load.budget;
    options.block_size = load.block;
    options.kv_memory_bytes = bytes_per_token * static_cast<size_t>(load.tokens);
    options.max_model_len = 110;
    options.model.threads = load.threads;
    const auto engine = open_engine(GetParam(), options);
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int i = 0; i < kRequests; ++i) {
      auto stream = engine->submit(make_request(i));
      ASSERT_TRUE(stream) << stream.error().message();
      streams.push_back(*stream);
    }
    for (int i = 0; i < kRequests; ++i) {
      const Answer answer = read_all(*streams[i]);
      EXPECT_EQ(answer.last.finish_reason, FinishReason::kLength);
      EXPECT_EQ(answer.ids, alone[i].ids) << "request " << i << ", block " << load.block;
      EXPECT_EQ(answer.text, alone[i].text);
      ASSERT_EQ(answer.logprobs.size(), alone[i].logprobs.size());
      EXPECT_EQ(std::memcmp(answer.logprobs.data(), alone[i].logprobs.data(),
                            answer.logprobs.size() * sizeof(float)),
                0)
          << "request " << i << ", block " << load.block;
    }
    EXPECT_EQ(engine->metrics().kv_pages_used, 0);
    preemptions += engine->metrics().preemptions;
  }
  EXPECT_GT(preemptions, 0u);
}

std::vector<int32_t> read_ids(const Checkpoint& file, const std::string& name) {
  const TensorInfo* tensor = file.find(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<int64_t> wide(tensor->bytes / dtype_size(tensor->dtype));
  if (tensor->dtype == DType::kI64) {
    EXPECT_TRUE(file.read(*tensor, 0, wide.data(), tensor->bytes).ok());
    return {wide.begin(), wide.end()};
  }
  std::vector<int32_t> ids(wide.size());
  EXPECT_EQ(dtype_size(tensor->dtype), sizeof(int32_t));
  EXPECT_TRUE(file.read(*tensor, 0, ids.data(), tensor->bytes).ok());
  return ids;
}

// What transformers continues the four reference prompts with.
TEST_P(EngineModel, ContinuesAsTheReferenceDoes) {
  const auto file = Checkpoint::open_file(folder(GetParam()) + "/golden.safetensors");
  ASSERT_TRUE(file) << file.error().message();
  EngineOptions options;
  options.kv_memory_bytes = 64 << 20;
  options.max_model_len = 256;
  const auto engine = open_engine(GetParam(), options);
  for (int j = 0; j < 4; ++j) {
    const std::string name = "gen." + std::to_string(j);
    Request request;
    request.prompt = read_ids(*file, name + ".prompt_ids");
    const std::vector<int32_t> expected = read_ids(*file, name + ".output_ids");
    request.sampling.temperature = 0;
    request.sampling.max_tokens = static_cast<int32_t>(expected.size());
    request.sampling.logprobs = 0;
    const auto stream = engine->submit(std::move(request));
    ASSERT_TRUE(stream) << stream.error().message();
    const Answer answer = read_all(**stream);
    EXPECT_EQ(answer.ids, expected) << name;
    const TensorInfo* logprobs = file->find(name + ".logprobs");
    std::vector<float> reference(expected.size());
    ASSERT_TRUE(file->read(*logprobs, 0, reference.data(), logprobs->bytes).ok());
    for (size_t i = 0; i < reference.size(); ++i) {
      EXPECT_NEAR(answer.logprobs[i], reference[i], 1e-4) << name << ", token " << i;
    }
    EXPECT_EQ(answer.text, engine->tokenizer()->decode(answer.ids, true));
  }
}

// Stop strings end the text where they begin, wherever the borders of tokens are.
TEST_P(EngineModel, StopStringsNeverShow) {
  EngineOptions options;
  options.kv_memory_bytes = 64 << 20;
  options.max_model_len = 256;
  const auto engine = open_engine(GetParam(), options);
  for (int i = 0; i < 4; ++i) {
    Request request = make_request(i);
    request.sampling.max_tokens = 40;
    const Answer whole = read_all(**engine->submit(request));
    for (size_t at = 1; at + 6 < whole.text.size(); at += 13) {
      const std::string stop = whole.text.substr(at, 1 + at % 5);
      if (stop.find_first_of("\xEF\xBD") != std::string::npos) continue;  // parts of U+FFFD
      Request stopping = request;
      stopping.sampling.stop = {"\x01 never \x01", stop};
      const Answer answer = read_all(**engine->submit(stopping));
      EXPECT_EQ(answer.text, whole.text.substr(0, whole.text.find(stop)));
      EXPECT_EQ(answer.last.finish_reason, FinishReason::kStop);
      EXPECT_EQ(answer.last.stop_string, stop);
      stopping.sampling.include_stop = true;
      EXPECT_EQ(read_all(**engine->submit(stopping)).text, answer.text + stop);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EngineModel, ::testing::Values("v3", "v2-lite", "v1-dense"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace fathom
