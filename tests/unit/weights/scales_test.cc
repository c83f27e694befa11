// FP8 weights and their block scales, partial blocks included.
#include "weights/scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/weights/test_files.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;
using testing::safetensors_file;
using testing::TemporaryFolder;
using testing::TestTensor;

TestTensor tensor(const std::string& name, DType dtype, std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t dimension : shape) count *= dimension;
  return {name, dtype, std::move(shape),
          std::string(static_cast<size_t>(count) * dtype_size(dtype), '\0')};
}

Checkpoint open(const TemporaryFolder& folder, const std::vector<TestTensor>& tensors) {
  folder.write("model.safetensors", safetensors_file(tensors));
  auto checkpoint = Checkpoint::open(folder.path());
  EXPECT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  return *std::move(checkpoint);
}

TEST(Scales, BlocksComeFromTheirSizeNotFromTheGrid) {
  TemporaryFolder folder;
  const Checkpoint checkpoint = open(folder, {tensor("a.weight", DType::kF8E4M3, {320, 192}),
                                              tensor("a.weight_scale_inv", DType::kF32, {3, 2}),
                                              tensor("norm.weight", DType::kBF16, {4})});
  OffenderReport report;
  const auto pairs = pair_scales(checkpoint, {128, 128}, report);
  EXPECT_TRUE(report.empty());
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].weight->name, "a.weight");
  EXPECT_EQ(pairs[0].scale->name, "a.weight_scale_inv");
  EXPECT_EQ(pairs[0].scale_index(0, 0), 0);
  EXPECT_EQ(pairs[0].scale_index(127, 127), 0);
  EXPECT_EQ(pairs[0].scale_index(127, 128), 1);  // 192 / 2 columns would put 96 in block 1
  EXPECT_EQ(pairs[0].scale_index(0, 100), 0);
  EXPECT_EQ(pairs[0].scale_index(319, 191), 5);  // 320 / 3 rows would put 107 in block 1
  EXPECT_EQ(pairs[0].scale_index(110, 0), 0);
}

TEST(Scales, ReadsEveryStoredType) {
  TemporaryFolder folder;
  TestTensor f32 = tensor("a.weight_scale_inv", DType::kF32, {1, 2});
  const float values[] = {0.5f, 3.0f};
  std::memcpy(f32.bytes.data(), values, sizeof(values));
  TestTensor e8m0 = tensor("b.weight_scale_inv", DType::kF8E8M0, {1, 1});
  e8m0.bytes[0] = static_cast<char>(125);
  TestTensor bf16 = tensor("c.weight_scale_inv", DType::kBF16, {1, 1});
  bf16.bytes = std::string("\x40\x40", 2);  // 3.0
  const Checkpoint checkpoint = open(folder, {tensor("a.weight", DType::kF8E4M3, {2, 130}), f32,
                                              tensor("b.weight", DType::kF8E4M3, {2, 2}), e8m0,
                                              tensor("c.weight", DType::kF8E4M3, {2, 2}), bf16});
  OffenderReport report;
  const auto pairs = pair_scales(checkpoint, {}, report);
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(*read_scales(checkpoint, pairs[0]), (std::vector<float>{0.5f, 3.0f}));
  EXPECT_EQ(*read_scales(checkpoint, pairs[1]), (std::vector<float>{0.25f}));
  EXPECT_EQ(*read_scales(checkpoint, pairs[2]), (std::vector<float>{3.0f}));
}

TEST(Scales, RefusesScalesThatAreNotFinite) {
  TemporaryFolder folder;
  TestTensor scale = tensor("a.weight_scale_inv", DType::kF32, {1, 1});
  scale.bytes = std::string("\x00\x00\xc0\x7f", 4);
  const Checkpoint checkpoint = open(folder, {tensor("a.weight", DType::kF8E4M3, {2, 2}), scale});
  OffenderReport report;
  const auto pairs = pair_scales(checkpoint, {}, report);
  ASSERT_EQ(pairs.size(), 1u);
  const auto scales = read_scales(checkpoint, pairs[0]);
  ASSERT_FALSE(scales.has_value());
  EXPECT_THAT(scales.error().message(), HasSubstr("a.weight_scale_inv"));
}

TEST(Scales, ReportsEveryMismatch) {
  TemporaryFolder folder;
  const Checkpoint checkpoint =
      open(folder, {tensor("alone.weight", DType::kF8E4M3, {128, 128}),
                    tensor("orphan.weight_scale_inv", DType::kF32, {1, 1}),
                    tensor("bf.weight", DType::kBF16, {2, 2}),
                    tensor("bf.weight_scale_inv", DType::kF32, {1, 1}),
                    tensor("shape.weight", DType::kF8E4M3, {129, 128}),
                    tensor("shape.weight_scale_inv", DType::kF32, {1, 1}),
                    tensor("type.weight", DType::kF8E4M3, {2, 2}),
                    tensor("type.weight_scale_inv", DType::kI32, {1, 1}),
                    tensor("vector.weight", DType::kF8E4M3, {4})});
  OffenderReport report;
  EXPECT_TRUE(pair_scales(checkpoint, {}, report).empty());
  const std::string message = report.to_status("the scales are wrong").message();
  EXPECT_THAT(message, HasSubstr("(6 problems)"));
  EXPECT_THAT(message, HasSubstr("missing tensor alone.weight_scale_inv"));
  EXPECT_THAT(message, HasSubstr("scales without an FP8 weight orphan.weight_scale_inv"));
  EXPECT_THAT(message, HasSubstr("scales without an FP8 weight bf.weight_scale_inv"));
  EXPECT_THAT(
      message,
      HasSubstr("wrong shape shape.weight_scale_inv in model.safetensors: expected F32 [2, 1]"));
  EXPECT_THAT(message, HasSubstr("wrong element type type.weight_scale_inv"));
  EXPECT_THAT(message, HasSubstr("wrong kind of scaled tensor vector.weight"));
}

}  // namespace
}  // namespace fathom
