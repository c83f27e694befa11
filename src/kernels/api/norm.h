// Root-mean-square normalisation of rows.
#pragma once

#include <cstdint>

#include "kernels/api/context.h"

namespace fathom::kernels {

// y = (x * r) * weight with r = 1 / sqrt(sum / h + eps), all fp32. The sum of squares: lane j of 16
// chains fma(x, x, p_j) over elements j, j+16, ...; lanes are added in halves (j with j+8, +4, +2,
// +1).
struct NormArgs {
  const float* x = nullptr;  // [m, h]
  int64_t x_stride = 0;
  const float* weight = nullptr;  // [h], or null for 1
  float eps = 0;
  float* y = nullptr;  // [m, h]; may be x itself
  int64_t y_stride = 0;
  int64_t m = 0;
  int64_t h = 0;
};
void rms_norm(KernelContext& ctx, const NormArgs& args);

}  // namespace fathom::kernels
