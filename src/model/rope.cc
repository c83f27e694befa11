// Scaled rotary frequencies of a RopeSpec: plain, linear, YaRN and llama3.
#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fathom {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// Dimension whose frequency turns `rotations` times over the original context (YaRN paper, 3.2).
double correction_dim(const RopeSpec& spec, double rotations) {
  const auto original = static_cast<double>(spec.original_max_position_embeddings);
  return spec.dim * std::log(original / (rotations * kTwoPi)) / (2 * std::log(spec.theta));
}

// Fast rotations keep their frequency, slow ones are divided by the factor, a ramp lies between.
void scale_yarn(const RopeSpec& spec, std::vector<double>& freq) {
  const double low = std::max(std::floor(correction_dim(spec, spec.beta_fast)), 0.0);
  double high = std::min(std::ceil(correction_dim(spec, spec.beta_slow)), spec.dim - 1.0);
  if (low == high) high += 0.001;  // as published: no division by zero
  for (size_t i = 0; i < freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    freq[i] = freq[i] / spec.factor * ramp + freq[i] * (1 - ramp);
  }
}

// Long wavelengths are divided by the factor, short ones kept, those between blended (Llama 3.1).
void scale_llama3(const RopeSpec& spec, std::vector<double>& freq) {
  const auto original = static_cast<double>(spec.original_max_position_embeddings);
  for (double& f : freq) {
    const double wavelength = kTwoPi / f;
    if (wavelength > original / spec.low_freq_factor) {
      f /= spec.factor;
    } else if (wavelength >= original / spec.high_freq_factor) {
      const double smooth = (original / wavelength - spec.low_freq_factor) /
                            (spec.high_freq_factor - spec.low_freq_factor);
      f = (1 - smooth) * f / spec.factor + smooth * f;
    }
  }
}

}  // namespace

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

RopeTable make_rope_table(const RopeSpec& spec) {
  std::vector<double> freq(static_cast<size_t>(spec.dim / 2));
  for (size_t i = 0; i < freq.size(); ++i) {
    freq[i] = std::pow(spec.theta, -2.0 * static_cast<double>(i) / spec.dim);
  }
  RopeTable table;
  switch (spec.scaling) {
    case RopeScaling::kNone:
      break;
    case RopeScaling::kLinear:
      for (double& f : freq) f /= spec.factor;
      break;
    case RopeScaling::kYarn:
      scale_yarn(spec, freq);
      table.mscale = static_cast<float>(yarn_mscale(spec.factor, spec.mscale) /
                                        yarn_mscale(spec.factor, spec.mscale_all_dim));
      break;
    case RopeScaling::kLlama3:
      scale_llama3(spec, freq);
      break;
  }
  table.inv_freq.assign(freq.begin(), freq.end());
  return table;
}

}  // namespace fathom
