// Parameter counts and cache sizes of the released configs agree with the published ones.
#include "model/describe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/model/released_configs.h"

namespace fathom {
namespace {

// As published, in billions with the digits given there.
void expect_counts(const char* config_text, double total, double active, double digit) {
  const auto config = parse_config(config_text, "config.json");
  ASSERT_TRUE(config) << config.error().message();
  const ParameterCounts counts = count_parameters(*config);
  const auto rounded = [digit](int64_t count) {
    return std::round(static_cast<double>(count) / 1e9 / digit) * digit;
  };
  EXPECT_NEAR(rounded(counts.total), total, 1e-9) << counts.total;
  EXPECT_NEAR(rounded(counts.active), active, 1e-9) << counts.active;
}

TEST(Describe, PublishedParameterCounts) {
  expect_counts(released::kV2Lite, 15.7, 2.4, 0.1);
  expect_counts(released::kV2, 236, 21, 1);
  expect_counts(released::kV3, 671, 37, 1);
}

TEST(Describe, ExactCounts) {
  const auto lite = parse_config(released::kV2Lite, "config.json").value();
  EXPECT_EQ(count_parameters(lite).total, 15706484224);
  const auto moe = parse_config(released::kMoe16B, "config.json").value();
  EXPECT_EQ(count_parameters(moe).total, 16375728128);
  const auto v3 = parse_config(released::kV3, "config.json").value();
  EXPECT_EQ(count_parameters(v3).total, 671026419200);
  const auto qwen = parse_config(released::kDistillQwen1_5B, "config.json").value();
  EXPECT_EQ(count_parameters(qwen).total, 1777088000);
  const auto coder = parse_config(released::kCoder1_3B, "config.json").value();
  EXPECT_EQ(count_parameters(coder).total, 1346471936);
}

TEST(Describe, MtpLayerIsCountedApart) {
  const auto v3 = parse_config(released::kV3, "config.json").value();
  // A MoE decoder layer of 11.507 B, eh_proj of 2 x 7168 x 7168; the duplicates of embedding and
  // head, which make it "14 B", are not counted twice.
  EXPECT_NEAR(static_cast<double>(count_parameters(v3).mtp) / 1e9, 11.507 + 0.103, 1e-3);
}

TEST(Describe, CacheBytes) {
  const auto lite = parse_config(released::kV2Lite, "config.json").value();
  EXPECT_EQ(kv_layout_of(lite, DType::kBF16).bytes_per_token(), 576u * 2 * 27);
  const auto v3 = parse_config(released::kV3, "config.json").value();
  EXPECT_EQ(kv_layout_of(v3, DType::kF32).bytes_per_token(), 576u * 4 * 61);
  const auto qwen = parse_config(released::kDistillQwen1_5B, "config.json").value();
  EXPECT_EQ(kv_layout_of(qwen, DType::kBF16).bytes_per_token(), 2u * 2 * 128 * 2 * 28);
}

TEST(Describe, WeightBytes) {
  const auto lite = parse_config(released::kV2Lite, "config.json").value();
  const double bf16 = 2.0 * 15706484224;
  EXPECT_NEAR(static_cast<double>(weight_bytes_of(lite)), bf16, bf16 * 1e-3);
  // FP8 is one byte a parameter, with two for embedding, head, gates, and four for kv_b_proj.
  const auto v3 = parse_config(released::kV3, "config.json").value();
  EXPECT_NEAR(static_cast<double>(weight_bytes_of(v3)) / 1e9, 676, 2);
}

TEST(Describe, ExpectedTensorsNameTheMtpLayer) {
  const auto v3 = parse_config(released::kV3, "config.json").value();
  int64_t required = 0;
  int64_t mtp = 0;
  for (const ExpectedTensor& tensor : expected_tensors(v3)) {
    required += tensor.required ? 1 : 0;
    mtp += tensor.mtp ? 1 : 0;
    EXPECT_EQ(tensor.mtp, tensor.name.rfind("model.layers.61.", 0) == 0) << tensor.name;
  }
  // 3 global; 61 x (9 attention and norms); 3 x 3 dense; 58 x (2 gate + 3 shared + 256 x 3).
  EXPECT_EQ(required, 3 + 61 * 9 + 9 + 58 * (2 + 3 + 768));
  // 9 + 773, inv_freq, enorm, hnorm, eh_proj, shared_head.norm, and two duplicates.
  EXPECT_EQ(mtp, 9 + 773 + 1 + 4 + 2);
}

}  // namespace
}  // namespace fathom
