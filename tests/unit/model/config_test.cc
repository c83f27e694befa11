// config.json of every member is read as published code reads it; everything else is refused by
// name.
#include "model/config/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/unit/model/released_configs.h"

namespace fathom {
namespace {

using nlohmann::json;
using testing::HasSubstr;

ModelConfig parse(const char* text, const ConfigOverrides& overrides = {}) {
  auto config = parse_config(text, "config.json", overrides);
  EXPECT_TRUE(config) << config.error().message();
  return config ? *config : ModelConfig();
}

// The message of refusal after `patch` (JSON merge patch: null removes a key).
std::string refusal(const char* text, const json& patch) {
  json root = json::parse(text);
  root.merge_patch(patch);
  const auto config = parse_config(root.dump(), "config.json");
  return config ? "accepted" : config.error().message();
}

TEST(Config, V3) {
  const ModelConfig config = parse(released::kV3);
  ASSERT_EQ(config.num_hidden_layers(), 61);
  EXPECT_EQ(config.layers[2].ffn.kind, FfnKind::kDense);
  EXPECT_EQ(config.layers[2].ffn.intermediate_size, 18432);
  const FfnSpec& moe = config.layers[3].ffn;
  EXPECT_EQ(moe.kind, FfnKind::kMoe);
  EXPECT_EQ(moe.n_routed_experts, 256);
  EXPECT_EQ(moe.router.scoring_func, ScoringFunc::kSigmoid);
  EXPECT_EQ(moe.router.topk_method, TopkMethod::kNoauxTc);
  EXPECT_EQ(moe.router.n_group, 8);
  EXPECT_EQ(moe.router.topk_group, 4);
  EXPECT_TRUE(moe.router.norm_topk_prob);
  EXPECT_TRUE(moe.router.scale_after_norm);
  EXPECT_EQ(moe.router.routed_scaling_factor, 2.5);
  const AttentionSpec& attention = config.layers[0].attention;
  EXPECT_EQ(attention.kind, AttentionKind::kMla);
  EXPECT_TRUE(attention.rope.interleaved);
  EXPECT_NEAR(attention.softmax_scale, 0.1352338, 1e-7);
  EXPECT_TRUE(config.fp8.enabled);
  EXPECT_EQ(config.num_nextn_predict_layers, 1);
  EXPECT_THAT(config.ignored_keys, testing::IsEmpty());
}

TEST(Config, V2Lite) {
  const ModelConfig config = parse(released::kV2Lite);
  const AttentionSpec& attention = config.layers[0].attention;
  EXPECT_EQ(attention.q_lora_rank, 0);
  EXPECT_NEAR(attention.softmax_scale, 0.1147214, 1e-7);
  EXPECT_EQ(config.layers[1].ffn.router.topk_method, TopkMethod::kGreedy);
  EXPECT_FALSE(config.layers[1].ffn.router.scale_after_norm);
  EXPECT_FALSE(config.fp8.enabled);
  EXPECT_THAT(config.ignored_keys, testing::IsEmpty());
}

TEST(Config, DenseMembers) {
  const ModelConfig coder = parse(released::kCoder1_3B);
  EXPECT_EQ(coder.layers[0].attention.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(coder.layers[0].attention.rope.factor, 4);
  const ModelConfig llama = parse(released::kDistillLlama70B);
  EXPECT_EQ(llama.layers[0].attention.rope.scaling, RopeScaling::kLlama3);
  EXPECT_THAT(llama.eos_token_ids, testing::ElementsAre(128001, 128008, 128009));
  const ModelConfig qwen = parse(released::kDistillQwen1_5B);
  EXPECT_TRUE(qwen.layers[0].attention.qkv_bias);
  EXPECT_FALSE(qwen.layers[0].attention.o_bias);
  EXPECT_THAT(qwen.ignored_keys, testing::IsEmpty());
}

TEST(Config, YarnMscaleAsPublishedCodeReadsIt) {
  const auto rope = [](const json& scaling) {
    json root = json::parse(released::kV2Lite);
    root["rope_scaling"].merge_patch(scaling);
    return parse(root.dump().c_str()).layers[0].attention;
  };
  const double ln40 = std::log(40.0);
  const double base = 1 / std::sqrt(192.0);
  const auto g = [ln40](double m) { return 0.1 * m * ln40 + 1; };
  const AttentionSpec unequal = rope({{"mscale", 1.0}, {"mscale_all_dim", 0.5}});
  EXPECT_EQ(unequal.rope.mscale, 1.0);
  EXPECT_EQ(unequal.rope.mscale_all_dim, 0.5);
  EXPECT_NEAR(unequal.softmax_scale, base * g(0.5) * g(0.5), 1e-12);
  const AttentionSpec only_mscale = rope({{"mscale_all_dim", nullptr}});
  EXPECT_EQ(only_mscale.rope.mscale, 0.707);
  EXPECT_EQ(only_mscale.rope.mscale_all_dim, 0);
  EXPECT_NEAR(only_mscale.softmax_scale, base, 1e-12);
  const AttentionSpec only_all = rope({{"mscale", nullptr}});
  EXPECT_EQ(only_all.rope.mscale, 1.0);
  EXPECT_NEAR(only_all.softmax_scale, base * g(0.707) * g(0.707), 1e-12);
}

TEST(Config, RopeParametersOfTransformers5) {
  json root = json::parse(released::kDistillLlama70B);
  root["rope_parameters"] = root["rope_scaling"];
  root["rope_parameters"]["rope_theta"] = 500000.0;
  root.erase("rope_scaling");
  root.erase("rope_theta");
  root["dtype"] = "bfloat16";
  root.erase("torch_dtype");
  const ModelConfig config = parse(root.dump().c_str());
  EXPECT_EQ(config.layers[0].attention.rope,
            parse(released::kDistillLlama70B).layers[0].attention.rope);
  root["rope_theta"] = 10000;
  EXPECT_THAT(refusal(root.dump().c_str(), json::object()), HasSubstr("keep one"));
}

TEST(Config, MoeLayerRule) {
  const ModelConfig config =
      parse(released::kV2Lite, {{"moe_layer_freq", "2"}, {"first_k_dense_replace", "3"}});
  for (int i = 0; i < config.num_hidden_layers(); ++i) {
    const bool moe = config.layers[static_cast<size_t>(i)].ffn.kind == FfnKind::kMoe;
    EXPECT_EQ(moe, i >= 3 && i % 2 == 0) << i;
  }
}

TEST(Config, NormTopkProbOfV2ReplacesScaling) {
  const ModelConfig config = parse(released::kV2, {{"norm_topk_prob", "true"}});
  const RouterSpec& router = config.layers[1].ffn.router;
  EXPECT_TRUE(router.norm_topk_prob);
  EXPECT_FALSE(router.scale_after_norm);
  // A single expert is not normalised by the published gate.
  EXPECT_FALSE(parse(released::kV2, {{"norm_topk_prob", "true"}, {"num_experts_per_tok", "1"}})
                   .layers[1]
                   .ffn.router.norm_topk_prob);
}

TEST(Config, UnknownKeysAreListedNotRefused) {
  const ModelConfig config = parse(released::kV3, {});
  json root = json::parse(released::kV3);
  root["frobnicate"] = 7;
  root["rope_scaling"]["twist"] = 7;
  EXPECT_THAT(parse(root.dump().c_str()).ignored_keys,
              testing::ElementsAre("rope_scaling.twist", "frobnicate"));
}

TEST(Config, Overrides) {
  const ModelConfig config =
      parse(released::kV2Lite,
            {{"n_routed_experts", "8"}, {"rope_scaling.factor", "16"}, {"topk_method", "greedy"}});
  EXPECT_EQ(config.layers[1].ffn.n_routed_experts, 8);
  EXPECT_EQ(config.layers[0].attention.rope.factor, 16);
  EXPECT_NE(config.source_hash, parse(released::kV2Lite).source_hash);
  const auto message = [](const ConfigOverrides& overrides) {
    const auto refused = parse_config(released::kV2Lite, "config.json", overrides);
    return refused ? std::string("accepted") : refused.error().message();
  };
  EXPECT_THAT(message({{"n_routed_expert", "8"}}), HasSubstr("n_routed_expert"));
  EXPECT_THAT(message({{"hidden_size.x", "8"}}), HasSubstr("not an object"));
  EXPECT_THAT(message({{"", "8"}}), HasSubstr("no key"));
  EXPECT_THAT(message({{"n_routed_experts", "many"}}), HasSubstr("n_routed_experts"));
}

struct Refused {
  const char* base;
  json patch;
  const char* says;  // part of the message
};

TEST(Config, RefusesByName) {
  const json fp8 = {{"activation_scheme", "static"}};
  const Refused cases[] = {
      {released::kV3, {{"model_type", "deepseek_v32"}}, "comes later"},
      {released::kV3, {{"model_type", "deepseek_v4"}}, "comes later"},
      {released::kV3, {{"model_type", "mamba"}}, "known: llama, qwen2, deepseek"},
      {released::kV3, {{"model_type", nullptr}}, "model_type"},
      {released::kV3, {{"architectures", {"LlamaForCausalLM"}}}, "architectures"},
      {released::kV3, {{"topk_method", "random"}}, "topk_method"},
      {released::kV3, {{"topk_method", "greedy"}}, "topk_method"},
      {released::kV3, {{"scoring_func", "softmax"}}, "scoring_func"},
      {released::kV2, {{"scoring_func", "sigmoid"}}, "scoring_func"},
      {released::kV2, {{"topk_method", "noaux_tc"}}, "topk_method"},
      {released::kV3, {{"hidden_act", "gelu"}}, "hidden_act"},
      {released::kV3, {{"quantization_config", {{"quant_method", "awq"}}}}, "quant_method"},
      {released::kV3, {{"quantization_config", fp8}}, "activation_scheme"},
      {released::kV3, {{"quantization_config", {{"weight_block_size", {64, 64}}}}}, "weight_block"},
      {released::kV3, {{"quantization_config", {{"scale_fmt", "odd"}}}}, "scale_fmt"},
      {released::kMoe16B, {{"quantization_config", {{"quant_method", "fp8"}}}}, "quantization"},
      {released::kV3, {{"rope_scaling", {{"type", "dynamic"}}}}, "rope_scaling.type"},
      {released::kV3, {{"rope_scaling", {{"attention_factor", 1.2}}}}, "attention_factor"},
      {released::kV3, {{"rope_scaling", {{"type", nullptr}}}}, "rope_scaling.type"},
      {released::kV3, {{"rope_scaling", "yarn"}}, "rope_scaling"},
      {released::kV3, {{"rope_scaling", {{"factor", 0}}}}, "rope_scaling.factor"},
      {released::kV3, {{"rope_scaling", {{"factor", nullptr}}}}, "rope_scaling.factor"},
      {released::kDistillLlama70B, {{"rope_scaling", {{"rope_type", "yarn"}}}}, "rope_type"},
      {released::kDistillLlama70B, {{"mlp_bias", true}}, "mlp_bias"},
      {released::kDistillQwen1_5B, {{"use_sliding_window", true}}, "use_sliding_window"},
      {released::kDistillQwen1_5B, {{"num_attention_heads", 5}}, "num_key_value_heads"},
      {released::kCoder1_3B, {{"num_attention_heads", 7}}, "hidden_size"},
      {released::kV3, {{"topk_group", 9}}, "topk_group"},
      {released::kV3, {{"n_group", 7}}, "n_group"},
      {released::kV3, {{"n_group", nullptr}}, "n_group"},
      {released::kV3, {{"num_experts_per_tok", 129}}, "num_experts_per_tok"},
      {released::kV3, {{"num_experts_per_tok", 300}}, "num_experts_per_tok"},
      {released::kV3, {{"hidden_size", -1}}, "hidden_size"},
      {released::kV3, {{"hidden_size", "7168"}}, "hidden_size"},
      {released::kV3, {{"hidden_size", 7168.5}}, "hidden_size"},
      {released::kV3, {{"hidden_size", 1e300}}, "hidden_size"},
      {released::kV3, {{"hidden_size", nullptr}}, "hidden_size"},
      {released::kV3, {{"vocab_size", 18446744073709551615u}}, "vocab_size"},
      {released::kV3, {{"num_hidden_layers", 2000000000}}, "num_hidden_layers"},
      {released::kV3, {{"num_hidden_layers", 1024}}, "num_hidden_layers"},  // times 256 experts
      {released::kV3, {{"qk_rope_head_dim", 63}}, "qk_rope_head_dim"},
      {released::kV3, {{"tie_word_embeddings", "no"}}, "tie_word_embeddings"},
      {released::kV3, {{"torch_dtype", "int8"}}, "torch_dtype"},
      {released::kV3, {{"eos_token_id", "1"}}, "eos_token_id"},
      {released::kV3, {{"eos_token_id", {1, -3}}}, "eos_token_id"},
      {released::kV3, {{"norm_topk_prob", nullptr}}, "norm_topk_prob"},
  };
  for (const Refused& c : cases) {
    EXPECT_THAT(refusal(c.base, c.patch), HasSubstr(c.says)) << c.patch.dump();
    EXPECT_NE(refusal(c.base, c.patch), "accepted") << c.patch.dump();
  }
}

TEST(Config, ListsEveryProblem) {
  const std::string message = refusal(
      released::kV3, {{"hidden_size", 0}, {"topk_method", "x"}, {"rope_scaling", {{"type", "y"}}}});
  EXPECT_THAT(message, HasSubstr("3 problems"));
  EXPECT_THAT(message, HasSubstr("hidden_size is 0"));
}

TEST(Config, HostileJson) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("nul"), std::string("{\"a\":"),
        std::string(100000, '['), std::string(4000, '{'), std::string("\xff\xfe{}"),
        std::string("{\"model_type\":\"\xff\"}"), std::string("{\"model_type\":17}")}) {
    EXPECT_FALSE(parse_config(text, "config.json")) << text.substr(0, 20);
  }
  std::string nested = released::kV3;
  nested.back() = ',';
  nested += "\"x\":" + std::string(50, '[') + std::string(50, ']') + "}";
  const auto deep = parse_config(nested, "config.json");
  ASSERT_FALSE(deep);
  EXPECT_THAT(deep.error().message(), HasSubstr("levels deep"));
}

TEST(Config, FolderWithoutConfig) {
  const auto missing = read_config(std::filesystem::temp_directory_path() / "no-such-model");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace fathom
