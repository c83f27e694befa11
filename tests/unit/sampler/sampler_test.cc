// Each sampling parameter by hand-computed rows, distributions with fixed seeds, hostile rows.
#include "sampler/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "sampler/fixed_math.h"
#include "sampler/philox.h"

namespace fathom {
namespace {

SamplerVocabulary all_of(int32_t width) {
  return {width, {{0, width}}};
}

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

int32_t sample(const SamplingParams& params, const std::vector<float>& row,
               const std::vector<int32_t>& prompt = {}, const std::vector<int32_t>& answer = {},
               const Sampler::Masks& masks = {}, uint64_t seed = 1) {
  const SamplerVocabulary vocabulary = all_of(static_cast<int32_t>(row.size()));
  Sampler sampler(params, seed, vocabulary, prompt, masks);
  for (const int32_t id : answer) EXPECT_TRUE(sampler.accept(id).ok());
  SamplerScratch scratch;
  const auto token =
      sampler.sample(row.data(), static_cast<int64_t>(prompt.size() + answer.size()), &scratch);
  return token ? token->id : -1;
}

// Counts of each id over many positions.
std::vector<int> histogram(const SamplingParams& params, const std::vector<float>& row, int draws) {
  const SamplerVocabulary vocabulary = all_of(static_cast<int32_t>(row.size()));
  const Sampler sampler(params, 7, vocabulary, {}, {});
  SamplerScratch scratch;
  std::vector<int> counts(row.size());
  for (int position = 0; position < draws; ++position) {
    ++counts[sampler.sample(row.data(), position, &scratch)->id];
  }
  return counts;
}

// Pearson's statistic of counts against probabilities; below the 0.1% quantile for its degrees of
// freedom if the sampler draws from them.
double chi_square(const std::vector<int>& counts, const std::vector<double>& p) {
  const double draws = std::accumulate(counts.begin(), counts.end(), 0);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "id " << i << " has no probability";
      continue;
    }
    const double expected = p[i] * draws;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

std::vector<double> softmax(const std::vector<float>& row, double temperature) {
  std::vector<double> p;
  for (const float logit : row) p.push_back(std::exp(logit / temperature));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

TEST(Sampler, GreedyTakesTheLowestIdOnTies) {
  EXPECT_EQ(sample(greedy(), {1, 3, 3, 2}), 1);
  EXPECT_EQ(sample(greedy(), {-5, -5}), 0);
  EXPECT_EQ(sample(greedy(), {-0.0f, 0.0f}), 0);
}

TEST(Sampler, BiasIsAddedFirst) {
  SamplingParams params = greedy();
  params.logit_bias = {{2, 2.0f}, {0, -1.0f}};
  EXPECT_EQ(sample(params, {3, 2, 1.5f}), 2);
}

TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  SamplingParams params = greedy();
  params.repetition_penalty = 2;
  EXPECT_EQ(sample(params, {4, 2.5f}, {0}), 1);          // 4 / 2 < 2.5
  EXPECT_EQ(sample(params, {4, 1.5f}, {0}), 0);          // 4 / 2 > 1.5
  EXPECT_EQ(sample(params, {-1, -1.5f}, {0}), 1);        // -1 * 2 < -1.5
  EXPECT_EQ(sample(params, {4, 2.5f}, {}, {0}), 1);      // the answer counts too
  EXPECT_EQ(sample(params, {4, 2.5f}, {0, 0}, {0}), 1);  // once, not once per occurrence
  EXPECT_EQ(sample(params, {4, 1.5f}, {0, 0}, {0}), 0);
}

TEST(Sampler, FrequencyAndPresenceCountTheAnswerOnly) {
  SamplingParams params = greedy();
  params.frequency_penalty = 0.5;
  EXPECT_EQ(sample(params, {2, 1.2f}, {0, 0, 0}), 0);
  EXPECT_EQ(sample(params, {2, 1.2f}, {}, {0}), 0);     // 2 - 0.5
  EXPECT_EQ(sample(params, {2, 1.2f}, {}, {0, 0}), 1);  // 2 - 1.0
  params.frequency_penalty = 0;
  params.presence_penalty = 0.7;
  EXPECT_EQ(sample(params, {2, 1.2f}, {}, {0, 0, 0}), 0);  // 2 - 0.7, however often
  EXPECT_EQ(sample(params, {2, 1.4f}, {}, {0}), 1);
  params.presence_penalty = -1;
  EXPECT_EQ(sample(params, {2, 1.2f}, {}, {1}), 1);
}

TEST(Sampler, MasksStopIdsUntilMinTokensAndUnwantedOnesAlways) {
  SamplingParams params = greedy();
  params.min_tokens = 2;
  Sampler::Masks masks;
  masks.until_min_tokens = {0};
  EXPECT_EQ(sample(params, {3, 2, 1}, {}, {}, masks), 1);
  EXPECT_EQ(sample(params, {3, 2, 1}, {}, {1}, masks), 1);
  EXPECT_EQ(sample(params, {3, 2, 1}, {}, {1, 1}, masks), 0);
  masks.never = {1};
  EXPECT_EQ(sample(params, {3, 2, 1}, {}, {}, masks), 2);
}

TEST(Sampler, NeverChoosesIdsWithoutAToken) {
  const SamplerVocabulary vocabulary{6, {{0, 2}, {3, 4}}};
  const std::vector<float> row{1, 2, 9, 1.5f, 9, 9};
  SamplerScratch scratch;
  EXPECT_EQ(Sampler(greedy(), 1, vocabulary, {}, {}).sample(row.data(), 0, &scratch)->id, 1);
  const Sampler sampler(SamplingParams(), 1, vocabulary, {}, {});
  for (int position = 0; position < 200; ++position) {
    const int32_t id = sampler.sample(row.data(), position, &scratch)->id;
    EXPECT_TRUE(id == 0 || id == 1 || id == 3);
  }
}

TEST(Sampler, DrawsFromTheTemperedSoftmax) {
  const std::vector<float> row{0.1f, 1.0f, -0.5f, 2.0f, 0.0f, 1.7f};
  for (const double temperature : {0.5, 1.0, 1.7}) {
    SamplingParams params;
    params.temperature = temperature;
    EXPECT_LT(chi_square(histogram(params, row, 50000), softmax(row, temperature)), 20.5)
        << temperature;
  }
}

TEST(Sampler, TopKMinPAndTopPCutTheDistribution) {
  const std::vector<float> row{0.0f, 1.0f, 3.0f, 2.0f, 2.5f, -1.0f};
  const std::vector<double> p = softmax(row, 1);  // order of size: 2 4 3 1 0 5
  const auto kept = [&p](const std::vector<int>& ids) {
    std::vector<double> cut(p.size());
    double sum = 0;
    for (const int id : ids) sum += p[id];
    for (const int id : ids) cut[id] = p[id] / sum;
    return cut;
  };
  SamplingParams params;
  params.top_k = 3;
  EXPECT_LT(chi_square(histogram(params, row, 50000), kept({2, 3, 4})), 13.9);
  params.top_k = 0;
  params.min_p = 0.3;  // of the largest: e^-1 = 0.37 stays, e^-2 does not
  EXPECT_LT(chi_square(histogram(params, row, 50000), kept({2, 3, 4})), 13.9);
  params.min_p = 0;
  params.top_p = p[2] + p[4] / 2;  // reached within the second
  EXPECT_LT(chi_square(histogram(params, row, 50000), kept({2, 4})), 10.9);
  params.top_k = 2;  // top-p is over what top-k left: p2 / (p2 + p4) = 0.62
  params.top_p = 0.6;
  EXPECT_LT(chi_square(histogram(params, row, 1000), kept({2})), 1e-9);
}

TEST(Sampler, TiesAtTheCutGoToTheLowestIds) {
  const std::vector<float> row{1, 1, 1, 1};
  SamplingParams params;
  params.top_k = 2;
  std::vector<int> counts = histogram(params, row, 2000);
  EXPECT_EQ(counts[2] + counts[3], 0);
  EXPECT_NEAR(counts[0], 1000, 120);
  params.top_k = 0;
  params.top_p = 0.7;
  counts = histogram(params, row, 2000);
  EXPECT_EQ(counts[3], 0);
  EXPECT_GT(counts[2], 500);
}

// The whole pipeline against a plain rendering of it with full sorts.
TEST(Sampler, EqualsAPlainReferenceOnRandomRows) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 3);
  for (int round = 0; round < 300; ++round) {
    const int32_t width = 1 + static_cast<int32_t>(random() % 2000);
    std::vector<float> row(width);
    for (float& logit : row) logit = std::round(normal(random) * 8) / 8;  // many ties
    SamplingParams params;
    params.temperature = 0.1 + (random() % 20) / 10.0;
    params.top_k = random() % 2 ? 1 + static_cast<int32_t>(random() % 300) : 0;
    params.top_p = random() % 2 ? 0.05 + (random() % 95) / 100.0 : 1;
    params.min_p = random() % 3 ? 0 : (random() % 100) / 200.0;

    std::vector<int32_t> ids(width);
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(), [&](int a, int b) { return row[a] > row[b]; });
    if (params.top_k > 0 && params.top_k < width) ids.resize(params.top_k);
    const double largest = row[ids[0]];
    const auto weight = [&](int32_t id) {
      return fixed_exp((double{row[id]} - largest) / params.temperature);
    };
    std::erase_if(ids, [&](int32_t id) { return weight(id) < params.min_p; });
    std::vector<int32_t> by_id(ids);
    std::sort(by_id.begin(), by_id.end());
    double total = 0;
    for (const int32_t id : by_id) total += weight(id);
    if (params.top_p < 1) {
      double sum = 0;
      size_t kept = 0;
      while (kept < ids.size() && sum < params.top_p * total) sum += weight(ids[kept++]);
      ids.resize(kept);
      total = sum;
    } else {
      ids = by_id;
    }
    const double target = uniform_draw(1, 0, 0) * total;
    double sum = 0;
    int32_t expected = -1;
    for (const int32_t id : ids) {
      sum += weight(id);
      expected = id;
      if (target < sum) break;
    }
    ASSERT_EQ(sample(params, row), expected) << "round " << round;
  }
}

TEST(Sampler, DependsOnSeedAndPositionOnly) {
  std::vector<float> row(100);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 7);
  SamplingParams params;
  EXPECT_EQ(sample(params, row, {1}, {}, {}, 5), sample(params, row, {2}, {}, {}, 5));
  int differ = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    differ += sample(params, row, {}, {}, {}, seed) != sample(params, row, {}, {}, {}, seed + 100);
  }
  EXPECT_GT(differ, 10);
}

TEST(Sampler, ExtremeTemperaturesAndLogitsStayFinite) {
  SamplingParams params;
  params.temperature = 1e-300;
  EXPECT_EQ(sample(params, {1, 2, 2, 0}) / 3, 0);
  params.temperature = 1000;
  const float huge = std::numeric_limits<float>::max();
  EXPECT_EQ(sample(params, {huge, -huge, 0}), 0);
  params.repetition_penalty = 1e-3;
  EXPECT_EQ(sample(params, {huge, -huge, 0}, {0, 1}), 0);
}

TEST(Sampler, RowsThatAreNotFiniteAreErrors) {
  const SamplerVocabulary vocabulary = all_of(3);
  SamplerScratch scratch;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const std::vector<float> row{1, bad, 2};
    for (const SamplingParams& params : {greedy(), SamplingParams()}) {
      const auto token = Sampler(params, 1, vocabulary, {}, {}).sample(row.data(), 0, &scratch);
      ASSERT_FALSE(token);
      EXPECT_NE(token.error().message().find("token 1"), std::string::npos);
    }
  }
}

TEST(Sampler, NothingLeftToChooseIsAnError) {
  Sampler::Masks masks;
  masks.never = {0, 1};
  EXPECT_EQ(sample(greedy(), {1, 2}, {}, {}, masks), -1);
  EXPECT_EQ(sample(SamplingParams(), {1, 2}, {}, {}, masks), -1);
}

TEST(Logprobs, AreTheLogSoftmaxOfTheRawRow) {
  SamplingParams params = greedy();
  params.logprobs = 3;
  params.logit_bias = {{0, 100.0f}};  // moves the choice, not the logprobs
  const std::vector<float> row{0.5f, 2, 2, -1};
  const SamplerVocabulary vocabulary = all_of(4);
  SamplerScratch scratch;
  const auto token = Sampler(params, 1, vocabulary, {}, {}).sample(row.data(), 0, &scratch);
  ASSERT_TRUE(token && token->logprobs);
  EXPECT_EQ(token->id, 0);
  const std::vector<double> p = softmax(row, 1);
  EXPECT_NEAR(token->logprobs->logprob, std::log(p[0]), 1e-6);
  ASSERT_EQ(token->logprobs->top.size(), 3u);
  EXPECT_EQ(token->logprobs->top[0].id, 1);
  EXPECT_EQ(token->logprobs->top[1].id, 2);
  EXPECT_EQ(token->logprobs->top[2].id, 0);
  EXPECT_EQ(token->logprobs->top[0].logprob, token->logprobs->top[1].logprob);
  EXPECT_NEAR(token->logprobs->top[2].logprob, std::log(p[0]), 1e-6);
}

TEST(Logprobs, ZeroMeansTheChosenTokenOnly) {
  SamplingParams params = greedy();
  params.logprobs = 0;
  const std::vector<float> row{0, 1};
  const SamplerVocabulary vocabulary = all_of(2);
  SamplerScratch scratch;
  const auto token = Sampler(params, 1, vocabulary, {}, {}).sample(row.data(), 0, &scratch);
  ASSERT_TRUE(token->logprobs);
  EXPECT_TRUE(token->logprobs->top.empty());
  params.logprobs = 10;  // more than there are
  const auto more = Sampler(params, 1, vocabulary, {}, {}).sample(row.data(), 0, &scratch);
  EXPECT_EQ(more->logprobs->top.size(), 2u);
}

TEST(ValidateSampling, NamesTheParameterThatIsWrong) {
  const auto refused = [](auto change, const char* name) {
    SamplingParams params;
    change(params);
    const Status status = validate_sampling(params, 50);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  };
  refused([](auto& p) { p.temperature = -1; }, "temperature");
  refused([](auto& p) { p.temperature = NAN; }, "temperature");
  refused([](auto& p) { p.top_p = 0; }, "top_p");
  refused([](auto& p) { p.top_p = 1.01; }, "top_p");
  refused([](auto& p) { p.top_k = -2; }, "top_k");
  refused([](auto& p) { p.min_p = 1.5; }, "min_p");
  refused([](auto& p) { p.repetition_penalty = 0; }, "repetition_penalty");
  refused([](auto& p) { p.presence_penalty = 2.5; }, "presence_penalty");
  refused([](auto& p) { p.frequency_penalty = -2.5; }, "frequency_penalty");
  refused([](auto& p) { p.max_tokens = 0; }, "max_tokens");
  refused([](auto& p) { p.min_tokens = -1; }, "min_tokens");
  refused([](auto& p) { p.max_tokens = 3, p.min_tokens = 4; }, "min_tokens");
  refused([](auto& p) { p.logprobs = 51; }, "logprobs");
  refused([](auto& p) { p.logit_bias = {{50, 1.0f}}; }, "logit_bias");
  refused([](auto& p) { p.logit_bias = {{1, NAN}}; }, "logit_bias");
  refused([](auto& p) { p.stop_token_ids = {-1}; }, "stop_token_ids");
  EXPECT_TRUE(validate_sampling(SamplingParams(), 50).ok());
}

}  // namespace
}  // namespace fathom
