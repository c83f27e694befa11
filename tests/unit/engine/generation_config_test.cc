// generation_config.json, and which ids end an answer.
#include "engine/generation_config.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace fathom {
namespace {

TEST(GenerationConfig, ReadsReleasedFiles) {
  const auto config = parse_generation_config(
      R"({"_from_model_config": true, "bos_token_id": 0, "eos_token_id": 1, "do_sample": true,
          "temperature": 0.6, "top_p": 0.95, "transformers_version": "4.39.3"})");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->sampling.temperature, 0.6);
  EXPECT_EQ(config->sampling.top_p, 0.95);
  EXPECT_EQ(config->sampling.top_k, 0);
  EXPECT_EQ(config->eos_token_ids, std::vector<int32_t>{1});
}

TEST(GenerationConfig, ReadsListsGreedyAndPenalties) {
  const auto config = parse_generation_config(
      R"({"eos_token_id": [128001, 128008], "do_sample": false, "temperature": 0.7, "top_k": 50,
          "min_p": 0.1, "repetition_penalty": 1.1, "top_p": null})");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->eos_token_ids, (std::vector<int32_t>{128001, 128008}));
  EXPECT_EQ(config->sampling.temperature, 0);
  EXPECT_EQ(config->sampling.top_k, 50);
  EXPECT_EQ(config->sampling.min_p, 0.1);
  EXPECT_EQ(config->sampling.repetition_penalty, 1.1);
  EXPECT_EQ(config->sampling.top_p, 1);
}

TEST(GenerationConfig, RefusesDamagedFilesByKey) {
  for (const char* json : {"", "[]", "{", "\xff"}) EXPECT_FALSE(parse_generation_config(json));
  const std::pair<const char*, const char*> bad[] = {
      {R"({"temperature": "hot"})", "temperature"},
      {R"({"temperature": -1})", "temperature"},
      {R"({"top_p": 0})", "top_p"},
      {R"({"top_p": 2})", "top_p"},
      {R"({"top_k": -5})", "top_k"},
      {R"({"min_p": 1.5})", "min_p"},
      {R"({"repetition_penalty": 0})", "repetition_penalty"},
      {R"({"eos_token_id": "x"})", "eos_token_id"},
      {R"({"eos_token_id": [1, -2]})", "eos_token_id"},
      {R"({"eos_token_id": 99999999999})", "eos_token_id"}};
  for (const auto& [json, key] : bad) {
    const auto config = parse_generation_config(json);
    ASSERT_FALSE(config) << json;
    EXPECT_NE(config.error().message().find(key), std::string::npos);
  }
}

TEST(GenerationConfig, AnAbsentFileGivesTheDefaults) {
  const auto config = read_generation_config("/no/such/folder");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->sampling.temperature, 1);
  EXPECT_TRUE(config->eos_token_ids.empty());
}

TEST(StopIds, AreTheUnionOfWhatTheFilesSay) {
  ModelConfig config;
  config.vocab_size = 512;
  config.eos_token_ids = {7};
  GenerationConfig generation;
  generation.eos_token_ids = {5, 7, 600, -1};
  EXPECT_EQ(collect_stop_ids(config, generation, nullptr), (std::vector<int32_t>{5, 7}));
}

TEST(StopIds, ATokenizerAddsItsOwnAndDropsWhatItDoesNotKnow) {
  const std::filesystem::path folder =
      std::filesystem::path(FATHOM_SOURCE_DIR) / "tests/data/tokenizers/tiny";
  const auto tokenizer = Tokenizer::load(folder);
  ASSERT_TRUE(tokenizer);
  ModelConfig config;
  config.vocab_size = 512;
  config.eos_token_ids = {100};  // an ordinary token: left over from another model's defaults
  GenerationConfig generation;
  generation.eos_token_ids = {496};  // an added one
  EXPECT_EQ(collect_stop_ids(config, generation, tokenizer->get()),
            (std::vector<int32_t>{1, 496}));  // 1 is the tokenizer's eos
}

// The two ends of deepseek-coder, whichever of them its config names.
TEST(StopIds, DeepSeekCoderHasTwo) {
  const auto tokenizer = Tokenizer::from_json(
      R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": [
          {"id": 32014, "content": "<｜end▁of▁sentence｜>", "special": true, "lstrip": false,
           "rstrip": false, "normalized": false, "single_word": false},
          {"id": 32021, "content": "<|EOT|>", "special": true, "lstrip": false,
           "rstrip": false, "normalized": false, "single_word": false}],
          "decoder": {"type": "ByteLevel"}})",
      "");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  ModelConfig config;
  config.vocab_size = 32256;
  config.eos_token_ids = {32014};
  EXPECT_EQ(collect_stop_ids(config, GenerationConfig(), tokenizer->get()),
            (std::vector<int32_t>{32014, 32021}));
}

}  // namespace
}  // namespace fathom
