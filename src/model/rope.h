// Scaled rotary frequencies of a RopeSpec: plain, linear, YaRN and llama3.
#pragma once

#include <vector>

#include "types/model_config.h"

namespace fathom {

struct RopeTable {
  std::vector<float> inv_freq;  // [dim / 2]; angle = position * inv_freq
  float mscale = 1;             // multiplies cos and sin
};

// YaRN's attention magnitude: 1 for factor <= 1, else 0.1 * mscale * ln(factor) + 1.
double yarn_mscale(double factor, double mscale);

// Computed in double and rounded once. The spec must come from a validated config.
RopeTable make_rope_table(const RopeSpec& spec);

}  // namespace fathom
