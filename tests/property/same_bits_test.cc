// A token's logits are the same bits whatever the instruction set, threads, pages, chunks and
// neighbours: memcmp over all logits of random plans.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "tests/property/paged_runner.h"

namespace fathom {
namespace {

using testing_util::first_difference;
using testing_util::random_sequences;
using testing_util::run_sequences;
using testing_util::RunResult;
using testing_util::RunStyle;

constexpr int kRandomRuns = 8;  // per model and cache type

struct Variant {
  const char* name;
  size_t scalar_tokens;  // how much of each sequence the slow oracle runs
};

std::unique_ptr<Model> load(const char* variant, DType kv_dtype) {
  ModelOptions options;
  options.kv_dtype = kv_dtype;
  options.threads = 1;
  auto model =
      Model::load(std::filesystem::path(FATHOM_TEST_DATA_DIR) / "golden" / variant, options);
  if (!model) throw std::runtime_error(model.error().message());
  return std::move(*model);
}

class SameBits : public testing::TestWithParam<std::tuple<Variant, DType>> {};

TEST_P(SameBits, UnderRandomPlans) {
  const auto& [variant, kv_dtype] = GetParam();
  const std::unique_ptr<Model> model = load(variant.name, kv_dtype);
  const int64_t vocab = model->config().vocab_size;
  // One sequence crosses the attention split at 128, the others do not.
  auto sequences = random_sequences(*model, {150, 41, 17, 1}, 7);
  const RunResult alone = run_sequences(*model, sequences, {.one_chunk = true});
  for (const std::vector<float>& logits : alone.logits) {
    ASSERT_TRUE(std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }))
        << "poisoned memory was read";
  }

  const int32_t page_sizes[] = {8, 16, 32, 64, 128};
  const kernels::Isa isas[] = {kernels::Isa::kAvx512, kernels::Isa::kAvx2};
  for (int i = 0; i < kRandomRuns; ++i) {
    const kernels::Isa isa = isas[i % 2];
    if (!kernels::isa_supported(isa)) continue;
    const int threads = 1 + i % 3;
    ASSERT_TRUE(model->set_compute(threads, isa).ok());
    const RunStyle style{.page_size = page_sizes[i % 5],
                         .all_rows = i % 4 != 3,
                         .seed = static_cast<uint32_t>(100 + i)};
    EXPECT_EQ(first_difference(alone, run_sequences(*model, sequences, style), vocab), "")
        << kernels::isa_name(isa) << ", " << threads << " threads, page_size " << style.page_size
        << ", seed " << style.seed;
  }

  for (std::vector<int32_t>& sequence : sequences) {
    sequence.resize(std::min(sequence.size(), variant.scalar_tokens));
  }
  ASSERT_TRUE(model->set_compute(2, kernels::Isa::kScalar).ok());
  const RunStyle style{.page_size = 32, .seed = 99};
  EXPECT_EQ(first_difference(alone, run_sequences(*model, sequences, style), vocab), "")
      << "scalar";
}

INSTANTIATE_TEST_SUITE_P(
    Goldens, SameBits,
    testing::Combine(testing::Values(Variant{"v1-dense", 150}, Variant{"v1-moe", 150},
                                     Variant{"r1-distill-qwen", 150}, Variant{"v2-lite", 24},
                                     Variant{"v2", 40}, Variant{"v3", 150}, Variant{"v3-fp8", 24}),
                     testing::Values(DType::kF32, DType::kBF16)),
    [](const auto& info) {
      std::string name =
          fmt::format("{}_{}", std::get<0>(info.param).name, dtype_name(std::get<1>(info.param)));
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

// More rows than one pass through the layers takes: the cut at 512 must not show either.
TEST(SameBitsLongStep, OneStepEqualsChunks) {
  const std::unique_ptr<Model> model = load("v3", DType::kF32);
  const auto sequences = random_sequences(*model, {1100, 3}, 8);
  const RunResult whole = run_sequences(*model, sequences, {.page_size = 64, .one_chunk = true});
  ASSERT_TRUE(model->set_compute(2, kernels::best_isa()).ok());
  const RunResult chunks = run_sequences(*model, sequences, {.page_size = 8, .seed = 5});
  EXPECT_EQ(first_difference(whole, chunks, model->config().vocab_size), "");
}

// The comparison itself can fail: another cache type gives other bits.
TEST(SameBitsLongStep, OtherCacheTypeDiffers) {
  const std::unique_ptr<Model> f32 = load("v3", DType::kF32);
  const std::unique_ptr<Model> bf16 = load("v3", DType::kBF16);
  const auto sequences = random_sequences(*f32, {9}, 8);
  EXPECT_NE(first_difference(run_sequences(*f32, sequences, {}),
                             run_sequences(*bf16, sequences, {}), f32->config().vocab_size),
            "");
}

}  // namespace
}  // namespace fathom
