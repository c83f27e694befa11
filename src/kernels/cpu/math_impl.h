// Elementwise functions and row reductions over the simd_*.h vector.
#pragma once

#include "kernels/cpu/kernel_table.h"

// Full unrolling of the short loops over a register tile.
#if defined(__clang__)
#define FATHOM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FATHOM_UNROLL _Pragma("GCC unroll 16")
#endif

namespace fathom::kernels {
namespace {

// exp: x = n ln2 + r with |r| <= ln2/2; a polynomial fitted to (e^r - 1 - r) / r^2; then 2^n in two
// factors, so that results in the denormal range are rounded once and overflow gives infinity.
FATHOM_INLINE V exp_v(V x) {
  x = vmin(vset1(89.0f), vmax(vset1(-104.0f), x));  // NaN passes: it is the second operand
  const V magic = vset1(12582912.0f);  // 1.5 * 2^23: rounds to an integer in the low bits
  const V shifted = vfma(x, vset1(1.44269504f), magic);
  const V n = vsub(shifted, magic);
  V r = vfma(n, vset1(-0.693145752f), x);  // ln2, upper bits
  r = vfma(n, vset1(-1.42860677e-6f), r);  // ln2, the rest
  V q = vset1(0.000198910798644647f);
  q = vfma(q, r, vset1(0.0013933731243014336f));
  q = vfma(q, r, vset1(0.00833331048488617f));
  q = vfma(q, r, vset1(0.041666463017463684f));
  q = vfma(q, r, vset1(0.1666666716337204f));
  q = vfma(q, r, vset1(0.5f));
  q = vfma(q, r, vset1(1.0f));
  q = vfma(q, r, vset1(1.0f));
  const VI exponent = isub(vbits(shifted), vbits(magic));
  const VI half = ihalf(exponent);
  const VI bias = iset1(127);
  const V scale_a = vfrom_bits(ishift_exponent(iadd(half, bias)));
  const V scale_b = vfrom_bits(ishift_exponent(iadd(isub(exponent, half), bias)));
  return vmul(vmul(q, scale_a), scale_b);
}

// With e = exp(-|x|): 1 / (1 + e) or e / (1 + e), which loses nothing on either side.
FATHOM_INLINE V sigmoid_v(V x) {
  const V e = exp_v(vsub(vzero(), vabs(x)));
  const V one = vset1(1.0f);
  return vdiv(vselect_negative(x, e, one), vadd(one, e));
}
FATHOM_INLINE V silu_v(V x) {
  return vdiv(x, vadd(vset1(1.0f), exp_v(vsub(vzero(), x))));
}
FATHOM_INLINE V silu_mul_v(V gate, V up) {
  return vmul(silu_v(gate), up);
}

template <typename Fn>
FATHOM_INLINE void map_row(const float* x, float* y, int64_t n, Fn fn) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) vstore(y + i, fn(vload(x + i)));
  if (i < n) vstore_n(y + i, fn(vload_n(x + i, n - i)), n - i);
}

void exp_row(const float* x, float* y, int64_t n) {
  map_row(x, y, n, [](V a) { return exp_v(a); });
}
void sigmoid_row(const float* x, float* y, int64_t n) {
  map_row(x, y, n, [](V a) { return sigmoid_v(a); });
}
void silu_row(const float* x, float* y, int64_t n) {
  map_row(x, y, n, [](V a) { return silu_v(a); });
}

void add_rows(const float* a, const float* b, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    vstore_n(y + i, vadd(vload_n(a + i, n - i), vload_n(b + i, n - i)), n - i);
  }
}
void silu_mul_rows(const float* gate, const float* up, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    vstore_n(y + i, silu_mul_v(vload_n(gate + i, n - i), vload_n(up + i, n - i)), n - i);
  }
}

void rms_norm_row(const float* x, const float* weight, float eps, float* y, int64_t n) {
  V sum = vzero();
  for (int64_t i = 0; i < n; i += 16) {
    const V a = vload_n(x + i, n - i);  // the padding's zeros leave a sum of squares as it is
    sum = vfma(a, a, sum);
  }
  const V mean = vdiv(vset1(vreduce_add(sum)), vset1(static_cast<float>(n)));
  const V r = vdiv(vset1(1.0f), vsqrt(vadd(mean, vset1(eps))));
  for (int64_t i = 0; i < n; i += 16) {
    V a = vmul(vload_n(x + i, n - i), r);
    if (weight) a = vmul(a, vload_n(weight + i, n - i));
    vstore_n(y + i, a, n - i);
  }
}

void combine_row(const CombineArgs& a) {
  for (int64_t i = 0; i < a.n; i += 16) {
    V sum = vzero();
    for (int64_t s = 0; s < a.slots; ++s) {
      sum = vfma(vset1(a.weights[s]), vload_n(a.rows[s] + i, a.n - i), sum);
    }
    if (a.shared) sum = vadd(sum, vload_n(a.shared + i, a.n - i));
    if (a.residual) sum = vadd(vload_n(a.residual + i, a.n - i), sum);
    vstore_n(a.y + i, sum, a.n - i);
  }
}

constexpr float kMinusInfinity = -__builtin_inff();

float row_max(const float* x, int64_t n) {
  V best = vset1(kMinusInfinity);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) best = vmax(vload(x + i), best);  // a NaN in x is passed over
  float result = vreduce_max(best);
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

float sum_exp(const float* x, float max, int64_t n) {
  V sum = vzero();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) sum = vadd(sum, exp_v(vsub(vload(x + i), vset1(max))));
  if (i < n) {
    float tail[16] = {};
    vstore_n(tail, exp_v(vsub(vload_n(x + i, n - i), vset1(max))), n - i);
    sum = vadd(sum, vload(tail));  // + 0 in the other lanes
  }
  return vreduce_add(sum);
}

void softmax_row(const float* x, float* y, int64_t n) {
  const float max = row_max(x, n);
  const V total = vset1(sum_exp(x, max, n));
  map_row(x, y, n, [&](V a) { return vdiv(exp_v(vsub(a, vset1(max))), total); });
}

void divide_row(const float* x, float divisor, float* y, int64_t n) {
  map_row(x, y, n, [&](V a) { return vdiv(a, vset1(divisor)); });
}

// Up to 16 elements of a stored row as fp32; lanes beyond n are zero.
FATHOM_INLINE V load_stored(const std::byte* p, Stored type, int64_t n) {
  if (type == Stored::kF32) return vload_n(reinterpret_cast<const float*>(p), n);
  uint16_t raw[16] = {};
  if (n < 16) {
    __builtin_memcpy(raw, p, static_cast<size_t>(n) * 2);
    p = reinterpret_cast<const std::byte*>(raw);
  }
  return type == Stored::kF16 ? vload_f16(p) : vload_bf16(p);
}

void widen_row(const std::byte* src, Stored type, float* y, int64_t n) {
  const int64_t size = type == Stored::kF32 ? 4 : 2;
  for (int64_t i = 0; i < n; i += 16) {
    vstore_n(y + i, load_stored(src + i * size, type, n - i), n - i);
  }
}

void narrow_bf16_row(const float* x, std::byte* y, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) vstore_bf16(y + i * 2, vload(x + i));
  if (i < n) {
    uint16_t raw[16];
    vstore_bf16(raw, vload_n(x + i, n - i));
    __builtin_memcpy(y + i * 2, raw, static_cast<size_t>(n - i) * 2);
  }
}

float read_stream(const std::byte* p, int64_t bytes) {
  const float* x = reinterpret_cast<const float*>(p);
  V a = vzero(), b = vzero(), c = vzero(), d = vzero();
  for (int64_t i = 0; i + 64 <= bytes / 4; i += 64) {
    prefetch(x + i + 1024);
    prefetch(x + i + 1024 + 16);
    prefetch(x + i + 1024 + 32);
    prefetch(x + i + 1024 + 48);
    a = vadd(a, vload(x + i));
    b = vadd(b, vload(x + i + 16));
    c = vadd(c, vload(x + i + 32));
    d = vadd(d, vload(x + i + 48));
  }
  return vreduce_add(vadd(vadd(a, b), vadd(c, d)));
}

float fma_burn(int64_t rounds) {
  V acc[16];
  for (int i = 0; i < 16; ++i) acc[i] = vset1(1.0f + static_cast<float>(i));
  const V a = vset1(0.999f), b = vset1(0.001f);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < 16; ++i) acc[i] = vfma(acc[i], a, b);
  }
  V sum = vzero();
  for (int i = 0; i < 16; ++i) sum = vadd(sum, acc[i]);
  return vreduce_add(sum);
}

}  // namespace
}  // namespace fathom::kernels
