// Norm, rotary embedding, polynomials, look-up, argmax, log-sum-exp.
#include "kernels/api/elementwise.h"

#include <algorithm>

#include "kernel_test_util.h"
#include "kernels/api/math.h"
#include "kernels/api/norm.h"
#include "kernels/api/rope.h"

namespace fathom::kernels {
namespace {

double ulp_error(float got, long double want) {
  const float rounded = static_cast<float>(want);
  if (std::isinf(rounded) || rounded == got) return 0;
  const float next = std::nextafter(std::fabs(rounded), INFINITY);
  const long double ulp = std::max<long double>(next - std::fabs(rounded), 1.4e-45L);
  return static_cast<double>(std::fabs(got - want) / ulp);
}

TEST(Math, ExpSigmoidAndSiluAreWithinTwoUlps) {
  std::vector<float> x;
  for (int i = -120000; i <= 120000; ++i) x.push_back(static_cast<float>(i) * 0.00093f);
  for (int i = -30; i < 0; ++i) x.push_back(std::ldexp(1.1f, i));
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> e(x.size()), s(x.size()), l(x.size());
  Machine machine(1, best_isa());
  exp_f32(machine.ctx, x.data(), e.data(), n);
  sigmoid_f32(machine.ctx, x.data(), s.data(), n);
  silu_f32(machine.ctx, x.data(), l.data(), n);
  double worst[3] = {};
  for (size_t i = 0; i < x.size(); ++i) {
    const long double exact = std::exp(static_cast<long double>(x[i]));
    const long double sigmoid = 1 / (1 + std::exp(-static_cast<long double>(x[i])));
    worst[0] = std::max(worst[0], ulp_error(e[i], exact));
    worst[1] = std::max(worst[1], ulp_error(s[i], sigmoid));
    if (x[i] > -88.7f) worst[2] = std::max(worst[2], ulp_error(l[i], sigmoid * x[i]));
    if (x[i] <= -88.73f) {
      ASSERT_TRUE(l[i] == 0 && std::signbit(l[i]));
    }
  }
  EXPECT_LT(worst[0], 1.0);
  EXPECT_LT(worst[1], 2.0);
  EXPECT_LT(worst[2], 2.0);
}

TEST(Math, ExpAtItsEdges) {
  const float inf = INFINITY;
  const std::vector<float> x = {0.0f,  -0.0f,  inf,       -inf,   NAN,
                                1e30f, -1e30f, 88.72283f, 88.73f, -104.5f};
  for (const auto& machine : all_machines()) {
    std::vector<float> y(x.size());
    exp_f32(machine->ctx, x.data(), y.data(), static_cast<int64_t>(x.size()));
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_EQ(y[1], 1.0f);
    EXPECT_EQ(y[2], inf);
    EXPECT_EQ(y[3], 0.0f);
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_EQ(y[5], inf);
    EXPECT_EQ(y[6], 0.0f);
    EXPECT_LT(y[7], inf);
    EXPECT_EQ(y[8], inf);
    EXPECT_EQ(y[9], 0.0f);
  }
}

TEST(Math, EveryInstructionSetGivesTheSameBits) {
  Rng rng(1);
  for (Data kind : kAllData) {
    for (int64_t n : {1, 15, 16, 17, 5000}) {
      const auto x = random_floats(static_cast<size_t>(n), kind, rng);
      const auto b = random_floats(static_cast<size_t>(n), kind, rng);
      std::vector<std::vector<float>> want;
      for (const auto& machine : all_machines()) {
        std::vector<std::vector<float>> got(5, std::vector<float>(x.size()));
        exp_f32(machine->ctx, x.data(), got[0].data(), n);
        sigmoid_f32(machine->ctx, x.data(), got[1].data(), n);
        silu_f32(machine->ctx, x.data(), got[2].data(), n);
        silu_mul(machine->ctx, x.data(), b.data(), got[3].data(), n);
        add(machine->ctx, x.data(), b.data(), got[4].data(), n);
        if (want.empty()) want = got;
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_TRUE(same_rows(got[i], want[i])) << machine->name() << ", function " << i;
        }
      }
    }
  }
}

TEST(Math, SinCosAndLogAgreeWithLongDouble) {
  Rng rng(2);
  std::uniform_real_distribution<double> exponent(-20, 23.9);
  for (int i = 0; i < 200000; ++i) {
    const auto angle = static_cast<float>(std::exp2(exponent(rng)));
    const SinCos got = sincos_f64(angle);
    ASSERT_NEAR(got.sin, static_cast<double>(std::sin(static_cast<long double>(angle))), 1e-15);
    ASSERT_NEAR(got.cos, static_cast<double>(std::cos(static_cast<long double>(angle))), 1e-15);
    const double x = std::exp2(exponent(rng) * 40);
    const long double log = std::log(static_cast<long double>(x));
    ASSERT_NEAR(log_f64(x), static_cast<double>(log), 5e-16 * std::fabs(static_cast<double>(log)));
  }
  EXPECT_EQ(sincos_f64(0).cos, 1.0);
  EXPECT_TRUE(std::isnan(sincos_f64(INFINITY).sin));
  EXPECT_EQ(log_f64(1), 0.0);
  EXPECT_EQ(log_f64(0), -INFINITY);
  EXPECT_EQ(log_f64(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(log_f64(-1)));
  EXPECT_NEAR(log_f64(5e-324), -744.4400719213812, 1e-12);
}

TEST(RmsNorm, FollowsItsContractInPlaceAndStrided) {
  Rng rng(3);
  for (Data kind : kAllData) {
    for (int64_t h : {1, 16, 31, 512, 700}) {
      const int64_t m = 9, stride = h + 5;
      const auto x = random_floats(static_cast<size_t>(m * stride), kind, rng);
      const auto w = random_floats(static_cast<size_t>(h), Data::kNormal, rng);
      std::vector<float> want = x;
      for (int64_t i = 0; i < m; ++i) {
        float* row = want.data() + i * stride;
        float lanes[16] = {};
        for (int64_t j = 0; j < h; ++j) lanes[j % 16] = std::fma(row[j], row[j], lanes[j % 16]);
        for (int step = 8; step > 0; step /= 2) {
          for (int j = 0; j < step; ++j) lanes[j] += lanes[j + step];
        }
        const float r = 1.0f / std::sqrt(lanes[0] / static_cast<float>(h) + 1e-6f);
        for (int64_t j = 0; j < h; ++j) row[j] = row[j] * r * w[static_cast<size_t>(j)];
      }
      for (const auto& machine : all_machines()) {
        auto y = x;
        rms_norm(machine->ctx, {.x = y.data(),
                                .x_stride = stride,
                                .weight = w.data(),
                                .eps = 1e-6f,
                                .y = y.data(),
                                .y_stride = stride,
                                .m = m,
                                .h = h});
        ASSERT_TRUE(same_rows(y, want)) << machine->name() << ", h " << h;
      }
    }
  }
}

TEST(Rope, RotatesPairsByTheAngle) {
  const std::vector<float> inv_freq = {1.0f, 0.01f};
  const std::vector<int32_t> positions = {0, 7, 100000};
  std::vector<float> cos(6), sin(6);
  rope_angles(inv_freq, 2.0f, positions, cos.data(), sin.data());
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 2; ++j) {
      const float angle = static_cast<float>(positions[i]) * inv_freq[j];
      EXPECT_EQ(cos[i * 2 + j],
                2.0f * static_cast<float>(std::cos(static_cast<long double>(angle))));
      EXPECT_EQ(sin[i * 2 + j],
                2.0f * static_cast<float>(std::sin(static_cast<long double>(angle))));
    }
  }
  const std::vector<float> x = {1, 2, 3, 4};
  for (const auto& machine : all_machines()) {
    for (RopeLayout layout : {RopeLayout::kInterleaved, RopeLayout::kHalfSplit}) {
      std::vector<float> y(3 * 2 * 6,
                           9.0f);  // rows of two heads, six wide, rotated in the last four
      for (size_t i = 0; i < 6; ++i)
        std::copy(x.begin(), x.end(), y.begin() + static_cast<long>(i) * 6 + 2);
      rope_apply(machine->ctx, {.cos = cos.data(),
                                .sin = sin.data(),
                                .x = y.data() + 2,
                                .row_stride = 12,
                                .head_stride = 6,
                                .m = 3,
                                .heads = 2,
                                .d = 4,
                                .layout = layout});
      const bool pairs = layout == RopeLayout::kInterleaved;
      for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(y[i * 6], 9.0f);
        for (size_t j = 0; j < 2; ++j) {
          const size_t first = pairs ? 2 * j : j, second = pairs ? 2 * j + 1 : j + 2;
          const float c = cos[i / 2 * 2 + j], s = sin[i / 2 * 2 + j];
          EXPECT_EQ(y[i * 6 + 2 + first], x[first] * c - x[second] * s);
          EXPECT_EQ(y[i * 6 + 2 + second], x[second] * c + x[first] * s);
        }
      }
    }
  }
}

TEST(Rope, APositionOutOfRangeIsNotSilentlyWrong) {
  const std::vector<float> inv_freq = {1.0f};
  const std::vector<int32_t> positions = {-1, 1 << 24};
  std::vector<float> cos(2), sin(2);
  rope_angles(inv_freq, 1.0f, positions, cos.data(), sin.data());
  EXPECT_TRUE(std::isnan(cos[0]) && std::isnan(sin[1]));
}

TEST(Embed, WidensRowsOfEachType) {
  Rng rng(4);
  for (WeightFormat f : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16}) {
    const TestMatrix table(f, 50, 37, Data::kWide, rng);
    const std::vector<int32_t> ids = {49, 0, 7, 7};
    for (const auto& machine : all_machines()) {
      std::vector<float> out(4 * 37);
      embed(machine->ctx, table.stored.data(), table.dtype(), 37, ids, out.data());
      for (size_t i = 0; i < 4; ++i) {
        ASSERT_TRUE(same_rows(out.data() + i * 37, table.values.data() + ids[i] * 37, 37));
      }
    }
  }
}

TEST(Argmax, TakesTheFirstOfEqualsAndSkipsNaN) {
  const std::vector<float> x = {1,   3,   3,   2,   NAN,       -1,  NAN,       -1,
                                NAN, NAN, NAN, NAN, -INFINITY, NAN, -INFINITY, NAN};
  std::vector<int32_t> ids(4);
  argmax(oracle(), x.data(), 4, 4, 4, ids.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 1, 0, 0}));
}

TEST(LogSumExp, MatchesTheDefinitionOnEveryInstructionSet) {
  Rng rng(5);
  for (int64_t n : {1, 16, 37, 1000}) {
    const auto x = random_floats(static_cast<size_t>(3 * n), Data::kNormal, rng);
    std::vector<float> want(3);
    logsumexp(oracle(), x.data(), n, 3, n, want.data());
    for (int64_t i = 0; i < 3; ++i) {
      long double sum = 0;
      for (int64_t j = 0; j < n; ++j)
        sum += std::exp(static_cast<long double>(x[static_cast<size_t>(i * n + j)]));
      EXPECT_NEAR(want[static_cast<size_t>(i)], static_cast<double>(std::log(sum)), 2e-6);
    }
    for (const auto& machine : all_machines()) {
      std::vector<float> got(3);
      logsumexp(machine->ctx, x.data(), n, 3, n, got.data());
      ASSERT_TRUE(same_rows(got, want)) << machine->name();
    }
  }
}

}  // namespace
}  // namespace fathom::kernels
