// Scalar double functions of our own (no libm, whose results differ between machines), and the
// elementwise entry points.
#include "kernels/api/math.h"

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/kernel_table.h"

namespace fathom::kernels {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Taylor series; |r| <= pi/4 leaves an error below 1e-17.
double sin_poly(double r) {
  const double z = r * r;
  double p = 1.0 / 355687428096000.0;  // 1/17!
  p = std::fma(p, z, -1.0 / 1307674368000.0);
  p = std::fma(p, z, 1.0 / 6227020800.0);
  p = std::fma(p, z, -1.0 / 39916800.0);
  p = std::fma(p, z, 1.0 / 362880.0);
  p = std::fma(p, z, -1.0 / 5040.0);
  p = std::fma(p, z, 1.0 / 120.0);
  p = std::fma(p, z, -1.0 / 6.0);
  return std::fma(p * z, r, r);
}
double cos_poly(double r) {
  const double z = r * r;
  double p = 1.0 / 20922789888000.0;  // 1/16!
  p = std::fma(p, z, -1.0 / 87178291200.0);
  p = std::fma(p, z, 1.0 / 479001600.0);
  p = std::fma(p, z, -1.0 / 3628800.0);
  p = std::fma(p, z, 1.0 / 40320.0);
  p = std::fma(p, z, -1.0 / 720.0);
  p = std::fma(p, z, 1.0 / 24.0);
  p = std::fma(p, z, -0.5);
  return std::fma(p, z, 1.0);
}

}  // namespace

SinCos sincos_f64(double angle) {
  constexpr double kLimit = 1073741824.0;  // 2^30: the quotient stays exact
  if (!(angle > -kLimit && angle < kLimit)) return {kNaN, kNaN};
  constexpr double kTwoOverPi = 0.63661977236758134308;
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = angle * kTwoOverPi + kRound;
  const double n = shifted - kRound;
  // pi/2 in three parts of 33, 33 and 53 bits (Cody and Waite).
  double r = std::fma(-n, 0x1.921fb544p+0, angle);
  r = std::fma(-n, 0x1.0b4611a6p-34, r);
  r = std::fma(-n, 0x1.3198a2e037073p-69, r);
  const double s = sin_poly(r), c = cos_poly(r);
  switch (std::bit_cast<uint64_t>(shifted) & 3) {  // n modulo 4
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

double log_f64(double x) {
  if (!(x > 0)) return x == 0 ? -kInfinity : kNaN;
  if (x == kInfinity) return kInfinity;
  int exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  // log m = 2 atanh(s), s = (m-1)/(m+1), |s| < 0.1716.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 23;
  for (int odd = 21; odd >= 3; odd -= 2) p = std::fma(p, z, 1.0 / odd);
  const double tail = 2.0 * s * z * p;
  const double e = exponent;
  constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  return e * kLn2High + (2.0 * s + (tail + e * kLn2Low));
}

void exp_f32(KernelContext& ctx, const float* x, float* y, int64_t n) {
  ctx.table().exp(x, y, n);
}
void sigmoid_f32(KernelContext& ctx, const float* x, float* y, int64_t n) {
  ctx.table().sigmoid(x, y, n);
}
void silu_f32(KernelContext& ctx, const float* x, float* y, int64_t n) {
  ctx.table().silu(x, y, n);
}

}  // namespace fathom::kernels
