// A checkpoint either fits its config exactly or is refused with every offender named; and dummy
// weights, tied heads and reference files behave.
#include "model/load.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "model/config/config.h"
#include "model/describe.h"
#include "model/model.h"
#include "model/reference.h"
#include "tests/unit/weights/test_files.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::safetensors_file;
using testing::TemporaryFolder;
using testing::TestTensor;

const fs::path kGoldens = fs::path(FATHOM_TEST_DATA_DIR) / "golden";

// A golden checkpoint that a test changes before it is loaded from a temporary folder.
class Changed {
 public:
  explicit Changed(const char* variant) {
    config_ = read_text_file(kGoldens / variant / "config.json", 1 << 20).value();
    const auto checkpoint = Checkpoint::open(kGoldens / variant).value();
    for (const TensorInfo& tensor : checkpoint.tensors()) {
      std::string bytes(tensor.bytes, '\0');
      EXPECT_TRUE(checkpoint.read(tensor, 0, bytes.data(), bytes.size()).ok());
      tensors[tensor.name] = {tensor.name, tensor.dtype, tensor.shape, bytes};
    }
  }

  std::map<std::string, TestTensor> tensors;

  void add(const std::string& name, DType dtype, std::vector<int64_t> shape) {
    size_t bytes = dtype_size(dtype);
    for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
    tensors[name] = {name, dtype, std::move(shape), std::string(bytes, '\0')};
  }

  Result<std::unique_ptr<Model>> load(const ConfigOverrides& overrides = {}) {
    std::vector<TestTensor> list;
    for (auto& [name, tensor] : tensors) list.push_back(tensor);
    folder_.write("model.safetensors", safetensors_file(list));
    folder_.write("config.json", config_);
    ModelOptions options;
    options.threads = 1;
    options.config_overrides = overrides;
    return Model::load(folder_.path(), options);
  }

  std::string refusal(const ConfigOverrides& overrides = {}) {
    const auto model = load(overrides);
    return model ? "accepted" : model.error().message();
  }

 private:
  TemporaryFolder folder_;
  std::string config_;
};

TEST(Load, AcceptsWhatItWrites) {
  for (const char* variant : {"v1-dense", "v3", "v3-fp8"}) {
    EXPECT_EQ(Changed(variant).refusal(), "accepted") << variant;
  }
}

TEST(Load, ListsEveryOffenderInOneMessage) {
  Changed model("v3");
  model.tensors.erase("model.layers.2.mlp.experts.7.up_proj.weight");
  model.tensors.erase("model.norm.weight");
  model.add("model.layers.1.self_attn.q_proj.weight", DType::kBF16, {128, 128});
  model.add("model.layers.9.input_layernorm.weight", DType::kBF16, {128});
  model.add("model.layers.0.input_layernorm.weight", DType::kBF16, {64});
  model.add("model.layers.1.input_layernorm.weight", DType::kI32, {128});
  model.add("model.layers.3.mlp.gate.weight", DType::kF8E4M3, {12, 128});
  const std::string message = model.refusal();
  EXPECT_THAT(message, HasSubstr("7 problems"));
  EXPECT_THAT(message, HasSubstr("missing tensor model.layers.2.mlp.experts.7.up_proj.weight"));
  EXPECT_THAT(message, HasSubstr("missing tensor model.norm.weight"));
  EXPECT_THAT(message, HasSubstr("unexpected tensor model.layers.1.self_attn.q_proj.weight"));
  EXPECT_THAT(message, HasSubstr("unexpected tensor model.layers.9.input_layernorm.weight"));
  EXPECT_THAT(message, HasSubstr("BF16 [64]"));
  EXPECT_THAT(message, HasSubstr("I32 [128]"));
  EXPECT_THAT(message, HasSubstr("F8_E4M3 [12, 128]"));
}

TEST(Load, NamesTheNearestKnownTensor) {
  Changed model("v1-dense");
  model.tensors["model.layers.1.mlp.gate_projj.weight"] =
      model.tensors["model.layers.1.mlp.gate_proj.weight"];
  model.tensors["model.layers.1.mlp.gate_projj.weight"].name =
      "model.layers.1.mlp.gate_projj.weight";
  model.tensors.erase("model.layers.1.mlp.gate_proj.weight");
  EXPECT_THAT(model.refusal(), HasSubstr("model.layers.1.mlp.gate_proj.weight"));
}

TEST(Load, TransposedMatrixIsRefused) {
  Changed model("v1-dense");
  TestTensor& down = model.tensors["model.layers.0.mlp.down_proj.weight"];
  std::swap(down.shape[0], down.shape[1]);
  EXPECT_THAT(model.refusal(), HasSubstr("model.layers.0.mlp.down_proj.weight"));
}

TEST(Load, MtpLayerIsCompleteOrAbsent) {
  Changed incomplete("v3");
  incomplete.tensors.erase("model.layers.4.eh_proj.weight");
  EXPECT_THAT(incomplete.refusal(), HasSubstr("missing tensor model.layers.4.eh_proj.weight"));

  Changed without_duplicates("v3");
  without_duplicates.tensors.erase("model.layers.4.embed_tokens.weight");
  without_duplicates.tensors.erase("model.layers.4.shared_head.head.weight");
  EXPECT_EQ(without_duplicates.refusal(), "accepted");

  Changed absent("v3");
  std::erase_if(absent.tensors,
                [](const auto& item) { return item.first.rfind("model.layers.4.", 0) == 0; });
  EXPECT_EQ(absent.refusal(), "accepted");

  Changed unannounced("v3");
  EXPECT_THAT(unannounced.refusal({{"num_nextn_predict_layers", "0"}}),
              HasSubstr("unexpected tensor model.layers.4.eh_proj.weight"));
}

TEST(Load, KnownExtrasByNameAndShape) {
  Changed model("v1-dense");
  model.add("model.layers.0.self_attn.rotary_emb.inv_freq", DType::kF32, {8});
  model.add("model.rotary_emb.inv_freq", DType::kF32, {8});
  EXPECT_EQ(model.refusal(), "accepted");
  model.add("model.layers.2.self_attn.rotary_emb.inv_freq", DType::kF32, {9});
  model.add("model.layers.3.self_attn.rotary_emb.inv_freq", DType::kF32, {8});
  const std::string message = model.refusal();
  EXPECT_THAT(message, HasSubstr("model.layers.2.self_attn.rotary_emb.inv_freq"));
  EXPECT_THAT(message, HasSubstr("unexpected tensor model.layers.3.self_attn.rotary_emb.inv_freq"));
}

TEST(Load, TiedEmbeddings) {
  Changed model("v1-dense");
  const ConfigOverrides tied = {{"tie_word_embeddings", "true"}};
  EXPECT_EQ(model.refusal(tied), "accepted");  // with an lm_head that is not used
  model.tensors.erase("lm_head.weight");
  EXPECT_EQ(model.refusal(tied), "accepted");
  EXPECT_THAT(model.refusal(), HasSubstr("missing tensor lm_head.weight"));
}

TEST(Load, Fp8Pairs) {
  const std::string name = "model.layers.1.self_attn.o_proj.weight";
  Changed no_scale("v3-fp8");
  no_scale.tensors.erase(name + "_scale_inv");
  EXPECT_THAT(no_scale.refusal(), HasSubstr(name));

  Changed wrong_grid("v3-fp8");
  wrong_grid.add("model.layers.1.self_attn.kv_a_proj_with_mqa.weight_scale_inv", DType::kF32,
                 {2, 1});
  EXPECT_THAT(wrong_grid.refusal(), HasSubstr("kv_a_proj_with_mqa"));

  Changed plain("v3-fp8");
  const std::vector<int64_t> shape = plain.tensors[name].shape;
  plain.add(name, DType::kBF16, shape);
  EXPECT_THAT(plain.refusal(), HasSubstr("unexpected tensor " + name + "_scale_inv"));
  plain.tensors.erase(name + "_scale_inv");
  EXPECT_EQ(plain.refusal(), "accepted");

  Changed not_fp8("v3-fp8");
  EXPECT_THAT(not_fp8.refusal({{"quantization_config", "null"}}), HasSubstr(name));

  Changed norm("v3-fp8");
  norm.add("model.layers.0.mlp.gate_proj.weight_scale_inv", DType::kF32, {3, 1});
  norm.tensors["model.layers.0.mlp.gate_proj.weight_scale_inv"].bytes.replace(0, 4, "\0\0\xc0\x7f",
                                                                              4);
  EXPECT_THAT(norm.refusal(), HasSubstr("model.layers.0.mlp.gate_proj.weight_scale_inv"));
}

TEST(Load, CorrectionBiasMayBeBf16) {
  Changed model("v3");
  model.add("model.layers.1.mlp.gate.e_score_correction_bias", DType::kBF16, {12});
  EXPECT_EQ(model.refusal(), "accepted");
  model.tensors.erase("model.layers.1.mlp.gate.e_score_correction_bias");
  EXPECT_THAT(model.refusal(),
              HasSubstr("missing tensor model.layers.1.mlp.gate.e_score_correction_bias"));
}

TEST(Load, FolderWithoutWeights) {
  TemporaryFolder folder;
  folder.write("config.json", read_text_file(kGoldens / "v3/config.json", 1 << 20).value());
  EXPECT_FALSE(Model::load(folder.path(), {}));
  ModelOptions dummy;
  dummy.dummy_weights = true;
  EXPECT_TRUE(Model::load(folder.path(), dummy));
}

TEST(Load, FingerprintFollowsWeightsConfigAndCache) {
  const auto of = [](Changed& model, const ConfigOverrides& overrides = {}) {
    return model.load(overrides).value()->fingerprint();
  };
  Changed model("v1-dense");
  const uint64_t base = of(model);
  EXPECT_EQ(of(model), base);
  EXPECT_NE(of(model, {{"rope_theta", "20000"}}), base);
  model.tensors["model.norm.weight"].bytes[0] ^= 1;
  EXPECT_NE(of(model), base);
}

// Mean and deviation of the dequantized embedding of dummy weights, by one step's trace.
TEST(Dummy, DeterministicWithTheAnnouncedDeviation) {
  for (const char* variant : {"v2-lite", "v3-fp8", "v1-coder"}) {
    std::vector<float> first;
    for (const int threads : {1, 3}) {
      ModelOptions options;
      options.dummy_weights = true;
      options.threads = threads;
      const auto model = Model::load(kGoldens / variant, options).value();
      std::vector<std::byte> memory(model->kv_layout().bytes_per_token() * 128);
      StepPlan plan;
      for (int32_t i = 0; i < 100; ++i) {
        plan.tokens.push_back(i);
        plan.positions.push_back(i);
        plan.sequences.push_back(0);
      }
      plan.page_tables = {{{0}, {0, 1}}};
      plan.logit_rows = {99};
      StepTrace trace;
      std::vector<float> logits(static_cast<size_t>(model->config().vocab_size));
      const KvMemory kv{memory.data(), 1, 128, memory.size()};
      ASSERT_TRUE(model->step(plan, {kv}, {logits.data(), nullptr, &trace}).ok());
      double squares = 0;
      for (const float x : trace.embed) squares += static_cast<double>(x) * x;
      EXPECT_NEAR(std::sqrt(squares / static_cast<double>(trace.embed.size())), 0.02, 0.0006);
      for (const float x : logits) ASSERT_TRUE(std::isfinite(x));
      if (first.empty()) first = logits;
      EXPECT_EQ(std::memcmp(first.data(), logits.data(), logits.size() * sizeof(float)), 0);
    }
  }
}

TEST(Dummy, TooLargeIsRefusedWithNumbers) {
  ModelOptions options;
  options.dummy_weights = true;
  options.config_overrides = {{"hidden_size", "1048576"}, {"vocab_size", "16777216"}};
  const auto model = Model::load(kGoldens / "v2-lite", options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), Code::kOutOfMemory);
  EXPECT_THAT(model.error().message(), HasSubstr("GB"));
}

// The comparison with a reference can fail, and says where.
TEST(Reference, FailsByName) {
  TemporaryFolder folder;
  const auto golden = Checkpoint::open_file(kGoldens / "v3/golden.safetensors").value();
  const auto model = Model::load(kGoldens / "v3", {}).value();
  const auto check = [&](const std::string& changed, size_t byte, char flip) {
    std::vector<TestTensor> list;
    for (const TensorInfo& tensor : golden.tensors()) {
      if (tensor.name.rfind("gen.", 0) == 0 && tensor.name.rfind("gen.0", 0) != 0) continue;
      std::string bytes(tensor.bytes, '\0');
      EXPECT_TRUE(golden.read(tensor, 0, bytes.data(), bytes.size()).ok());
      if (tensor.name == changed) bytes[byte] = static_cast<char>(bytes[byte] ^ flip);
      list.push_back({tensor.name, tensor.dtype, tensor.shape, bytes});
    }
    if (changed == "surprise") list.push_back({"surprise", DType::kF32, {1}, std::string(4, '\0')});
    folder.write("reference.safetensors", safetensors_file(list));
    const auto report = check_reference(*model, folder.path() / "reference.safetensors");
    EXPECT_TRUE(report) << report.error().message();
    std::string failed;
    for (const ReferenceCheck& c : report->checks) {
      if (c.outcome == CheckOutcome::kFailed) failed += c.name + ";";
    }
    return fmt::format("{}{}", failed, report->first_bad_layer);
  };
  EXPECT_EQ(check("", 0, 0), "-1");
  EXPECT_EQ(check("logits", 2, 1), "logits;-1");
  EXPECT_EQ(check("hidden.2", 3, 1), "hidden.2;2");
  EXPECT_EQ(check("router.1.ids", 0, 2), "router.1.ids;router.1.weights;1");
  EXPECT_EQ(check("router.3.weights", 2, 1), "router.3.weights;3");
  EXPECT_EQ(check("gen.0.output_ids", 8 * 20, 1), "gen.0;-1");
  EXPECT_EQ(check("gen.0.logprobs", 2, 8), "gen.0;-1");
  EXPECT_EQ(check("surprise", 0, 0), "surprise;-1");
}

}  // namespace
}  // namespace fathom
