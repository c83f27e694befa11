// Rotary position embedding: angles once per step, applied per layer.
//
// angle = float(position) * inv_freq (fp32, rounded once, as transformers does); cos and sin of it
// in double by our own polynomials (no libm: the same bits on every machine), rounded to fp32,
// times mscale in fp32. Rotation of a pair (a, b): (a*c - b*s, b*c + a*s), each product rounded.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/api/context.h"

namespace fathom::kernels {

enum class RopeLayout : uint8_t {
  kInterleaved,  // pairs (2i, 2i+1): MLA's q_pe and k_pe
  kHalfSplit,    // pairs (i, i + d/2): llama architecture
};

// Fills cos and sin [m, d/2] for the rows' positions (0 <= position < 2^24); inv_freq [d/2] holds
// the scaled frequencies (YaRN, linear, llama3 are the caller's). Positions outside give NaN.
void rope_angles(std::span<const float> inv_freq, float mscale, std::span<const int32_t> positions,
                 float* cos, float* sin);

struct RopeArgs {
  const float* cos = nullptr;  // [m, d/2]
  const float* sin = nullptr;  // [m, d/2]
  float* x = nullptr;          // [m, heads, d]: points at the first rotated element of head 0
  int64_t row_stride = 0;
  int64_t head_stride = 0;
  int64_t m = 0;
  int64_t heads = 0;
  int64_t d = 0;  // rotated elements, even
  RopeLayout layout = RopeLayout::kInterleaved;
};
void rope_apply(KernelContext& ctx, const RopeArgs& args);  // in place

}  // namespace fathom::kernels
