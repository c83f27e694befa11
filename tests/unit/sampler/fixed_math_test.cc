// Our exp and log against the C library's, and Philox against its published vectors.
#include "sampler/fixed_math.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sampler/philox.h"

namespace fathom {
namespace {

TEST(FixedMath, ExpIsRight) {
  EXPECT_EQ(fixed_exp(0), 1);
  EXPECT_EQ(fixed_exp(-INFINITY), 0);
  EXPECT_EQ(fixed_exp(-1e300), 0);
  for (double x = -707.9; x < 20; x += 0.0137) {
    EXPECT_NEAR(fixed_exp(x) / std::exp(x), 1, 1e-15) << x;
  }
}

TEST(FixedMath, ExpIsMonotone) {
  double last = 0;
  for (double x = -2; x <= 0; x += 1e-5) {
    const double value = fixed_exp(x);
    EXPECT_GE(value, last) << x;
    last = value;
  }
}

TEST(FixedMath, LogIsRight) {
  EXPECT_EQ(fixed_log(1), 0);
  for (double x = 1e-3; x < 1e9; x *= 1.0007) {
    EXPECT_NEAR(fixed_log(x), std::log(x), 4e-15 * std::max(1.0, std::fabs(std::log(x)))) << x;
  }
}

// kat_vectors of Random123, "philox4x32 10".
TEST(Philox, KnownAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformDrawsAreUniformAndIndependentOfEachOther) {
  double sum = 0, square = 0, product = 0, last = 0.5;
  constexpr int kDraws = 100000;
  for (int position = 0; position < kDraws; ++position) {
    const double u = uniform_draw(42, position, 0);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    square += u * u;
    product += (u - 0.5) * (last - 0.5);
    last = u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.004);
  EXPECT_NEAR(square / kDraws, 1.0 / 3, 0.004);
  EXPECT_NEAR(product / kDraws, 0, 0.001);
  EXPECT_NE(uniform_draw(42, 1, 0), uniform_draw(42, 1, 1));
  EXPECT_NE(uniform_draw(42, 1, 0), uniform_draw(43, 1, 0));
  EXPECT_NE(uniform_draw(42, 1, 0), uniform_draw(42 + (uint64_t{1} << 32), 1, 0));
  EXPECT_NE(uniform_draw(42, 1, 0), uniform_draw(42, 1 + (int64_t{1} << 32), 0));
}

}  // namespace
}  // namespace fathom
