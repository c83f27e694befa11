// The 16-lane vector as one AVX-512 register; see simd_scalar.h for the meaning of each name.
//
// Only intrinsics and code in the anonymous namespace: nothing compiled for AVX-512 may be merged
// by the linker with a function that an older processor runs.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace fathom::kernels {
namespace {

constexpr int kTileRows = 6;  // 6 x 4 accumulators, 4 weights, 1 broadcast: 29 of 32 registers
constexpr int kTileVecs = 4;
constexpr int kDirectRows = 4;

using V = __m512;
using VI = __m512i;

#define FATHOM_INLINE static inline __attribute__((always_inline))

FATHOM_INLINE V vset1(float value) {
  return _mm512_set1_ps(value);
}
FATHOM_INLINE V vzero() {
  return _mm512_setzero_ps();
}
FATHOM_INLINE V vload(const float* p) {
  return _mm512_loadu_ps(p);
}
FATHOM_INLINE void vstore(float* p, V a) {
  _mm512_storeu_ps(p, a);
}
FATHOM_INLINE __mmask16 first_lanes(int64_t n) {
  return n >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << n) - 1);
}
FATHOM_INLINE V vload_n(const float* p, int64_t n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
FATHOM_INLINE void vstore_n(float* p, V a, int64_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), a);
}

FATHOM_INLINE V vadd(V a, V b) {
  return _mm512_add_ps(a, b);
}
FATHOM_INLINE V vsub(V a, V b) {
  return _mm512_sub_ps(a, b);
}
FATHOM_INLINE V vmul(V a, V b) {
  return _mm512_mul_ps(a, b);
}
FATHOM_INLINE V vdiv(V a, V b) {
  return _mm512_div_ps(a, b);
}
FATHOM_INLINE V vfma(V a, V b, V c) {
  return _mm512_fmadd_ps(a, b, c);
}
FATHOM_INLINE V vmax(V a, V b) {
  return _mm512_max_ps(a, b);
}
FATHOM_INLINE V vmin(V a, V b) {
  return _mm512_min_ps(a, b);
}
FATHOM_INLINE V vsqrt(V a) {
  return _mm512_sqrt_ps(a);
}
FATHOM_INLINE V vabs(V a) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff)));
}
FATHOM_INLINE V vselect_negative(V x, V a, V b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), b, a);
}

FATHOM_INLINE VI vbits(V a) {
  return _mm512_castps_si512(a);
}
FATHOM_INLINE V vfrom_bits(VI a) {
  return _mm512_castsi512_ps(a);
}
FATHOM_INLINE VI iset1(int32_t value) {
  return _mm512_set1_epi32(value);
}
FATHOM_INLINE VI iadd(VI a, VI b) {
  return _mm512_add_epi32(a, b);
}
FATHOM_INLINE VI isub(VI a, VI b) {
  return _mm512_sub_epi32(a, b);
}
FATHOM_INLINE VI ihalf(VI a) {
  return _mm512_srai_epi32(a, 1);
}
FATHOM_INLINE VI ishift_exponent(VI a) {
  return _mm512_slli_epi32(a, 23);
}

FATHOM_INLINE V vload_bf16(const void* p) {
  const __m256i raw = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}
FATHOM_INLINE V vload_f16(const void* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
FATHOM_INLINE void vsplit_pair(VI raw, V& a, V& b) {
  a = _mm512_castsi512_ps(_mm512_slli_epi32(raw, 16));
  b = _mm512_castsi512_ps(
      _mm512_and_si512(raw, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u))));
}
FATHOM_INLINE void vload_pair_bf16(const void* p, V& a, V& b) {
  vsplit_pair(_mm512_loadu_si512(p), a, b);
}

// bf16 bits of the e4m3 magnitudes first..first+31 as words; every e4m3 value is a bf16 value.
alignas(64) constexpr uint16_t kF8AsBf16[128] = {
    0x0000, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60, 0x3c80, 0x3c90, 0x3ca0, 0x3cb0,
    0x3cc0, 0x3cd0, 0x3ce0, 0x3cf0, 0x3d00, 0x3d10, 0x3d20, 0x3d30, 0x3d40, 0x3d50, 0x3d60, 0x3d70,
    0x3d80, 0x3d90, 0x3da0, 0x3db0, 0x3dc0, 0x3dd0, 0x3de0, 0x3df0, 0x3e00, 0x3e10, 0x3e20, 0x3e30,
    0x3e40, 0x3e50, 0x3e60, 0x3e70, 0x3e80, 0x3e90, 0x3ea0, 0x3eb0, 0x3ec0, 0x3ed0, 0x3ee0, 0x3ef0,
    0x3f00, 0x3f10, 0x3f20, 0x3f30, 0x3f40, 0x3f50, 0x3f60, 0x3f70, 0x3f80, 0x3f90, 0x3fa0, 0x3fb0,
    0x3fc0, 0x3fd0, 0x3fe0, 0x3ff0, 0x4000, 0x4010, 0x4020, 0x4030, 0x4040, 0x4050, 0x4060, 0x4070,
    0x4080, 0x4090, 0x40a0, 0x40b0, 0x40c0, 0x40d0, 0x40e0, 0x40f0, 0x4100, 0x4110, 0x4120, 0x4130,
    0x4140, 0x4150, 0x4160, 0x4170, 0x4180, 0x4190, 0x41a0, 0x41b0, 0x41c0, 0x41d0, 0x41e0, 0x41f0,
    0x4200, 0x4210, 0x4220, 0x4230, 0x4240, 0x4250, 0x4260, 0x4270, 0x4280, 0x4290, 0x42a0, 0x42b0,
    0x42c0, 0x42d0, 0x42e0, 0x42f0, 0x4300, 0x4310, 0x4320, 0x4330, 0x4340, 0x4350, 0x4360, 0x4370,
    0x4380, 0x4390, 0x43a0, 0x43b0, 0x43c0, 0x43d0, 0x43e0, 0x7fc0};

FATHOM_INLINE void vload_pair_f8(const void* p, V& a, V& b) {
  const __m512i byte = _mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  // vpermi2w reads the index modulo 64: the two halves of the table, then the byte's bit 6 chooses.
  const __m512i low = _mm512_permutex2var_epi16(_mm512_load_si512(kF8AsBf16), byte,
                                                _mm512_load_si512(kF8AsBf16 + 32));
  const __m512i high = _mm512_permutex2var_epi16(_mm512_load_si512(kF8AsBf16 + 64), byte,
                                                 _mm512_load_si512(kF8AsBf16 + 96));
  const __mmask32 upper = _mm512_test_epi16_mask(byte, _mm512_set1_epi16(0x40));
  const __m512i magnitude = _mm512_mask_blend_epi16(upper, low, high);
  // sign: bit 7 of the byte to bit 15 of the word.
  const __m512i sign = _mm512_and_si512(_mm512_slli_epi16(byte, 8), _mm512_set1_epi16(-0x8000));
  vsplit_pair(_mm512_or_si512(magnitude, sign), a, b);
}

FATHOM_INLINE void vstore_bf16(void* p, V value) {
  const VI bits = _mm512_castps_si512(value);
  const VI odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const VI rounded = _mm512_srli_epi32(
      _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  const VI quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  _mm256_storeu_si256(static_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(nan, rounded, quiet)));
}

FATHOM_INLINE void vstore_halves(void* low, void* high, V a) {
  const VI bits = _mm512_castps_si512(a);
  _mm256_storeu_si256(static_cast<__m256i*>(low), _mm512_cvtepi32_epi16(bits));
  _mm256_storeu_si256(static_cast<__m256i*>(high),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}

FATHOM_INLINE float vreduce_add(V a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
FATHOM_INLINE float vreduce_max(V a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

FATHOM_INLINE void vtranspose16(V* r) {
  V t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
  }
}
FATHOM_INLINE void prefetch_far(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}
FATHOM_INLINE void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace
}  // namespace fathom::kernels
