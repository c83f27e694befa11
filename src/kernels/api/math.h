// Fixed polynomials behind the kernels' transcendental functions; the same bits on every machine.
#pragma once

#include <cstdint>

#include "kernels/api/context.h"

namespace fathom::kernels {

// y[i] = f(x[i]), n elements; at most 2 units in the last place from the exact value. exp saturates
// to +inf and goes through the denormals to 0; NaN stays NaN. silu of x < -87,
// below 1e-36, is within 1e-42.
void exp_f32(KernelContext& ctx, const float* x, float* y, int64_t n);
void sigmoid_f32(KernelContext& ctx, const float* x, float* y, int64_t n);  // 1 / (1 + exp(-x))
void silu_f32(KernelContext& ctx, const float* x, float* y, int64_t n);     // x * sigmoid(x)

struct SinCos {
  double sin;
  double cos;
};
SinCos sincos_f64(double angle);  // |angle| < 2^30, else NaN; error below 1e-15
double log_f64(double x);         // natural logarithm; error below 2 ulp; x <= 0: -inf or NaN

}  // namespace fathom::kernels
