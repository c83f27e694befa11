// Every golden checkpoint gives what transformers computes from it, on every instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>

#include "model/reference.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = fs::path(FATHOM_TEST_DATA_DIR) / "golden";

std::string describe(const ReferenceReport& report) {
  std::string text;
  for (const ReferenceCheck& check : report.checks) {
    if (check.outcome != CheckOutcome::kFailed) continue;
    text += fmt::format("  {}: mae {:.2e} max {:.2e} {}\n", check.name, check.mae, check.max_abs,
                        check.note);
  }
  return text;
}

class Golden : public testing::TestWithParam<std::tuple<const char*, kernels::Isa>> {};

TEST_P(Golden, AgreesWithReference) {
  const auto& [variant, isa] = GetParam();
  if (!kernels::isa_supported(isa)) GTEST_SKIP() << "not on this processor";
  ModelOptions options;
  options.isa = isa;
  options.threads = 2;
  const auto model = Model::load(kGoldens / variant, options);
  ASSERT_TRUE(model) << model.error().message();
  // The .bin folder holds the weights of v1-dense.
  const fs::path folder = std::string(variant) == "v1-dense-bin" ? "v1-dense" : variant;
  const auto report = check_reference(**model, kGoldens / folder / "golden.safetensors");
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->passed()) << describe(*report);
  EXPECT_EQ(report->first_bad_layer, -1);
  size_t checked = 0;
  for (const ReferenceCheck& check : report->checks) {
    checked += check.outcome == CheckOutcome::kPassed ? 1 : 0;
  }
  // logits, long.logits, embed, norm, one a layer, four continuations.
  EXPECT_GE(checked, (*model)->config().layers.size() + 8);
}

std::string test_name(const testing::TestParamInfo<Golden::ParamType>& info) {
  std::string name =
      std::string(std::get<0>(info.param)) + "_" + kernels::isa_name(std::get<1>(info.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Vector, Golden,
    testing::Combine(testing::Values("v1-dense", "v1-dense-bin", "v1-coder", "v1-moe",
                                     "r1-distill-llama", "r1-distill-qwen", "v2-lite", "v2", "v3",
                                     "v3-fp8"),
                     testing::Values(kernels::Isa::kAvx2, kernels::Isa::kAvx512)),
    test_name);
// The scalar oracle is slow; tests/property compares all its bits with the others'.
INSTANTIATE_TEST_SUITE_P(Scalar, Golden,
                         testing::Combine(testing::Values("r1-distill-qwen", "v3"),
                                          testing::Values(kernels::Isa::kScalar)),
                         test_name);

}  // namespace
}  // namespace fathom
