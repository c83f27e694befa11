// Router: the published selection rules, ties, degenerate scores.
#include "kernels/api/router.h"

#include "kernel_test_util.h"

namespace fathom::kernels {
namespace {

struct Choice {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};
Choice choose(KernelContext& ctx, const RouterConfig& config, const std::vector<float>& logits,
              const float* bias = nullptr) {
  const auto m = static_cast<int64_t>(logits.size()) / config.experts;
  const auto slots = static_cast<size_t>(m * config.top_k);
  Choice out{std::vector<int32_t>(slots, -1), std::vector<float>(slots)};
  route(ctx, config,
        {.logits = logits.data(),
         .logits_stride = config.experts,
         .bias = bias,
         .ids = out.ids.data(),
         .weights = out.weights.data(),
         .m = m});
  return out;
}

TEST(Router, GreedySoftmaxTakesTheLargestAndBreaksTiesByIndex) {
  const RouterConfig config{.experts = 6, .top_k = 3};
  const auto got = choose(oracle(), config, {0, 1, 0, 1, 1, 0});
  EXPECT_EQ(got.ids, (std::vector<int32_t>{1, 3, 4}));
  const float want = std::exp(1.0f) / (3 * std::exp(1.0f) + 3);
  for (float w : got.weights) EXPECT_NEAR(w, want, 1e-7);
}

TEST(Router, ScalingFollowsTheVersion) {
  const std::vector<float> logits = {3, 2, 1, 0};
  RouterConfig config{.experts = 4, .top_k = 2, .routed_scale = 16};
  const auto scaled = choose(oracle(), config, logits);
  config.routed_scale = 1;
  const auto plain = choose(oracle(), config, logits);
  EXPECT_EQ(scaled.weights[0], plain.weights[0] * 16);
  config.normalize = true;
  config.routed_scale = 2.5f;
  config.scale_normalized = false;  // V2: normalise instead of scaling
  auto got = choose(oracle(), config, logits);
  EXPECT_NEAR(got.weights[0] + got.weights[1], 1.0, 1e-6);
  config.scale_normalized = true;  // V3: both
  got = choose(oracle(), config, logits);
  EXPECT_NEAR(got.weights[0] + got.weights[1], 2.5, 1e-6);
  config.top_k = 1;  // V3 normalises a single expert too: its weight is the scale alone
  got = choose(oracle(), config, logits);
  EXPECT_EQ(got.weights[0], 2.5f);
  config.normalize = false;
  got = choose(oracle(), config, logits);
  EXPECT_NEAR(got.weights[0], 2.5 * plain.weights[0], 1e-6);
}

TEST(Router, GroupLimitedGreedyRanksGroupsByTheirMaximum) {
  const RouterConfig config{.select = RouterSelect::kGroupLimitedGreedy,
                            .experts = 6,
                            .top_k = 2,
                            .groups = 3,
                            .top_groups = 1};
  // Group 1 holds the single largest; group 2 has the larger sum.
  const auto got = choose(oracle(), config, {0, 0, 5, -9, 4.9f, 4.9f});
  EXPECT_EQ(got.ids, (std::vector<int32_t>{2, 3}));
}

TEST(Router, NoAuxTcSelectsByBiasedScoresAndWeighsByUnbiasedOnes) {
  const RouterConfig config{.score = RouterScore::kSigmoid,
                            .select = RouterSelect::kNoAuxTc,
                            .experts = 6,
                            .top_k = 2,
                            .groups = 3,
                            .top_groups = 1};
  // Sum of the two best: group 2 wins although group 1 has the single largest.
  const auto by_sum = choose(oracle(), config, {0, 0, 5, -9, 4, 4});
  EXPECT_EQ(by_sum.ids, (std::vector<int32_t>{4, 5}));
  // Biased scores below zero: masked experts must still lose (-inf, not 0).
  const std::vector<float> bias = {-3, -3, -9, -9, -9, -9};
  const auto negative = choose(oracle(), config, {0, 1, 5, 5, 5, 5}, bias.data());
  EXPECT_EQ(negative.ids, (std::vector<int32_t>{1, 0}));
  EXPECT_NEAR(negative.weights[0], 1 / (1 + std::exp(-1.0)), 1e-7);
  EXPECT_NEAR(negative.weights[1], 0.5, 1e-7);
}

TEST(Router, AlwaysGivesDistinctValidExperts) {
  Rng rng(1);
  for (RouterSelect select :
       {RouterSelect::kGreedy, RouterSelect::kGroupLimitedGreedy, RouterSelect::kNoAuxTc}) {
    const RouterConfig config{
        .score = select == RouterSelect::kNoAuxTc ? RouterScore::kSigmoid : RouterScore::kSoftmax,
        .select = select,
        .experts = 24,
        .top_k = 6,
        .groups = 4,
        .top_groups = 2,
        .normalize = true};
    for (Data kind : kAllData) {
      const auto logits = random_floats(24 * 40, kind, rng);
      const auto bias = random_floats(24, kind, rng);
      const auto want = choose(oracle(), config, logits, bias.data());
      for (size_t i = 0; i < want.ids.size(); i += 6) {
        std::vector<int32_t> row(want.ids.begin() + static_cast<long>(i),
                                 want.ids.begin() + static_cast<long>(i) + 6);
        std::sort(row.begin(), row.end());
        ASSERT_GE(row.front(), 0);
        ASSERT_LT(row.back(), 24);
        ASSERT_EQ(std::unique(row.begin(), row.end()), row.end());
      }
      for (const auto& machine : all_machines()) {
        const auto got = choose(machine->ctx, config, logits, bias.data());
        ASSERT_EQ(got.ids, want.ids) << machine->name();
        ASSERT_TRUE(same_rows(got.weights, want.weights)) << machine->name();
      }
    }
  }
}

}  // namespace
}  // namespace fathom::kernels
