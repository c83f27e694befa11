// Fixed polynomials behind the kernels' transcendental functions; the same bits on every machine.
#pragma once

#include <cstdint>

#include "kernels/api/context.h"

namespace fathom::kernels {

// y[i] = f(x[i]), n elements; at most 2 units in the last place from the exact value. exp saturates
// to +inf and goes through the denormals to 0; NaN stays NaN. silu is
// -0 below -88.73, where exp(-x) overflows (the exact value is above -3e-37).
void exp_f32(KernelContext& ctx, const float* x, float* y, int64_t n);
void sigmoid_f32(KernelContext& ctx, const float* x, float* y, int64_t n);  // 1 / (1 + exp(-x))
void silu_f32(KernelContext& ctx, const float* x, float* y, int64_t n);     // x / (1 + exp(-x))

struct SinCos {
  double sin;
  double cos;
};
SinCos sincos_f64(double angle);  // |angle| < 2^30, else NaN; error below 1e-15
double log_f64(double x);         // natural logarithm; error below 2 ulp; x <= 0: -inf or NaN

}  // namespace fathom::kernels
