// Rotary frequency tables against published values.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fathom {
namespace {

RopeSpec yarn(double mscale, double mscale_all_dim) {
  RopeSpec spec;
  spec.dim = 64;
  spec.theta = 10000;
  spec.scaling = RopeScaling::kYarn;
  spec.factor = 40;
  spec.original_max_position_embeddings = 4096;
  spec.mscale = mscale;
  spec.mscale_all_dim = mscale_all_dim;
  return spec;
}

TEST(Rope, YarnOfV3) {
  const RopeTable table = make_rope_table(yarn(1, 1));
  ASSERT_EQ(table.inv_freq.size(), 32u);
  const std::pair<size_t, double> golden[] = {{0, 1},          {9, 0.0749894}, {10, 0.0562341},
                                              {11, 0.0390069}, {16, 0.0055},   {22, 1.77828e-4},
                                              {23, 3.3338e-5}, {31, 3.3338e-6}};
  for (const auto& [i, value] : golden) {
    EXPECT_NEAR(table.inv_freq[i], value, value * 1e-5) << i;
  }
  EXPECT_EQ(table.mscale, 1.0f);
}

TEST(Rope, YarnMagnitudeIsTheRatio) {
  EXPECT_NEAR(yarn_mscale(40, 1.0), 1.3688879, 1e-6);
  EXPECT_NEAR(yarn_mscale(40, 0.707), 1.2608038, 1e-6);
  EXPECT_EQ(yarn_mscale(0.5, 1.0), 1.0);
  EXPECT_NEAR(make_rope_table(yarn(1.0, 0.707)).mscale, 1.3688879 / 1.2608038, 1e-6);
  EXPECT_NEAR(make_rope_table(yarn(1.0, 0)).mscale, 1.3688879, 1e-6);
}

TEST(Rope, LinearDividesEveryFrequency) {
  RopeSpec spec;
  spec.dim = 128;
  spec.theta = 100000;
  const RopeTable plain = make_rope_table(spec);
  spec.scaling = RopeScaling::kLinear;
  spec.factor = 4;
  const RopeTable linear = make_rope_table(spec);
  for (size_t i = 0; i < 64; ++i) EXPECT_FLOAT_EQ(linear.inv_freq[i] * 4, plain.inv_freq[i]);
}

TEST(Rope, Llama3KeepsFastAndDividesSlow) {
  RopeSpec spec;
  spec.dim = 128;
  spec.theta = 500000;
  const RopeTable plain = make_rope_table(spec);
  spec.scaling = RopeScaling::kLlama3;
  spec.factor = 8;
  spec.original_max_position_embeddings = 8192;
  const RopeTable scaled = make_rope_table(spec);
  EXPECT_FLOAT_EQ(scaled.inv_freq[0], plain.inv_freq[0]);
  EXPECT_FLOAT_EQ(scaled.inv_freq[63] * 8, plain.inv_freq[63]);
  // Wavelength 4096 is between 8192/4 and 8192/1: smooth = (8192/4096 - 1) / 3 = 1/3.
  for (size_t i = 0; i < 64; ++i) {
    const double f = std::pow(500000.0, -2.0 * static_cast<double>(i) / 128);
    const double turns = 8192 * f / (2 * M_PI);
    if (turns <= 1 || turns >= 4) continue;
    const double smooth = (turns - 1) / 3;
    EXPECT_NEAR(scaled.inv_freq[i], (1 - smooth) * f / 8 + smooth * f, f * 1e-6) << i;
  }
}

}  // namespace
}  // namespace fathom
