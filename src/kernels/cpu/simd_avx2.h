// The 16-lane vector as two AVX2 registers; see simd_scalar.h for the meaning of each name.
//
// Only intrinsics and code in the anonymous namespace: nothing compiled for AVX2 may be merged by
// the linker with a function that an older processor runs.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace fathom::kernels {
namespace {

constexpr int kTileRows = 6;  // 6 x 2 accumulators, 2 weights, 1 broadcast: 15 of 16 registers
constexpr int kTileVecs = 1;
constexpr int kDirectRows = 2;

struct V {
  __m256 lo;  // lanes 0-7
  __m256 hi;  // lanes 8-15
};
struct VI {
  __m256i lo;
  __m256i hi;
};

#define FATHOM_INLINE static inline __attribute__((always_inline))

FATHOM_INLINE V vset1(float value) {
  return {_mm256_set1_ps(value), _mm256_set1_ps(value)};
}
FATHOM_INLINE V vzero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
FATHOM_INLINE V vload(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
FATHOM_INLINE void vstore(float* p, V a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
FATHOM_INLINE __m256i first_lanes(int64_t n) {
  const int32_t count = n < 0 ? 0 : n > 8 ? 8 : static_cast<int32_t>(n);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
FATHOM_INLINE V vload_n(const float* p, int64_t n) {
  return {_mm256_maskload_ps(p, first_lanes(n)), _mm256_maskload_ps(p + 8, first_lanes(n - 8))};
}
FATHOM_INLINE void vstore_n(float* p, V a, int64_t n) {
  _mm256_maskstore_ps(p, first_lanes(n), a.lo);
  _mm256_maskstore_ps(p + 8, first_lanes(n - 8), a.hi);
}

FATHOM_INLINE V vadd(V a, V b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
FATHOM_INLINE V vsub(V a, V b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
FATHOM_INLINE V vmul(V a, V b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
FATHOM_INLINE V vdiv(V a, V b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
FATHOM_INLINE V vfma(V a, V b, V c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
FATHOM_INLINE V vmax(V a, V b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
FATHOM_INLINE V vmin(V a, V b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
FATHOM_INLINE V vsqrt(V a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
FATHOM_INLINE V vabs(V a) {
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  return {_mm256_and_ps(a.lo, mask), _mm256_and_ps(a.hi, mask)};
}
FATHOM_INLINE V vselect_negative(V x, V a, V b) {
  const __m256 zero = _mm256_setzero_ps();
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_cmp_ps(x.lo, zero, _CMP_LT_OQ)),
          _mm256_blendv_ps(b.hi, a.hi, _mm256_cmp_ps(x.hi, zero, _CMP_LT_OQ))};
}

FATHOM_INLINE VI vbits(V a) {
  return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
FATHOM_INLINE V vfrom_bits(VI a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}
FATHOM_INLINE VI iset1(int32_t value) {
  return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)};
}
FATHOM_INLINE VI iadd(VI a, VI b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
FATHOM_INLINE VI isub(VI a, VI b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
FATHOM_INLINE VI ihalf(VI a) {
  return {_mm256_srai_epi32(a.lo, 1), _mm256_srai_epi32(a.hi, 1)};
}
FATHOM_INLINE VI ishift_exponent(VI a) {
  return {_mm256_slli_epi32(a.lo, 23), _mm256_slli_epi32(a.hi, 23)};
}

FATHOM_INLINE __m256 widen_bf16(__m128i raw) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}
FATHOM_INLINE V vload_bf16(const void* p) {
  const __m128i* raw = static_cast<const __m128i*>(p);
  return {widen_bf16(_mm_loadu_si128(raw)), widen_bf16(_mm_loadu_si128(raw + 1))};
}
FATHOM_INLINE V vload_f16(const void* p) {
  const __m128i* raw = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(raw)), _mm256_cvtph_ps(_mm_loadu_si128(raw + 1))};
}
FATHOM_INLINE void split_pair(__m256i raw, __m256& a, __m256& b) {
  a = _mm256_castsi256_ps(_mm256_slli_epi32(raw, 16));
  b = _mm256_castsi256_ps(
      _mm256_and_si256(raw, _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u))));
}
FATHOM_INLINE void vload_pair_bf16(const void* p, V& a, V& b) {
  const __m256i* raw = static_cast<const __m256i*>(p);
  split_pair(_mm256_loadu_si256(raw), a.lo, b.lo);
  split_pair(_mm256_loadu_si256(raw + 1), a.hi, b.hi);
}
// Eight e4m3 values in the top bytes of 32-bit lanes. Subnormals go through an exact subtraction
// rather than a multiplication of a denormal, which would trap to microcode.
FATHOM_INLINE __m256 widen_f8_top(__m256i top) {
  const __m256i sign = _mm256_and_si256(top, _mm256_set1_epi32(static_cast<int32_t>(0x80000000u)));
  const __m256i magnitude = _mm256_srli_epi32(_mm256_and_si256(top, _mm256_set1_epi32(0x7f000000)),
                                              4);  // e at 23, m at 20
  const __m256i subnormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), magnitude);
  const __m256i normal_bits = _mm256_add_epi32(magnitude, _mm256_set1_epi32(120 << 23));
  const __m256 small =
      _mm256_sub_ps(_mm256_castsi256_ps(_mm256_add_epi32(magnitude, _mm256_set1_epi32(121 << 23))),
                    _mm256_set1_ps(0.015625f));
  const __m256 value =
      _mm256_blendv_ps(_mm256_castsi256_ps(normal_bits), small, _mm256_castsi256_ps(subnormal));
  const __m256i nan = _mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(0x07f00000));
  const __m256i quiet = _mm256_and_si256(nan, _mm256_set1_epi32(0x7fc00000));
  return _mm256_castsi256_ps(
      _mm256_or_si256(_mm256_or_si256(_mm256_castps_si256(value), quiet), sign));
}
FATHOM_INLINE void vload_pair_f8(const void* p, V& a, V& b) {
  const __m128i* raw = static_cast<const __m128i*>(p);
  const __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128(raw));
  const __m256i hi = _mm256_cvtepu16_epi32(_mm_loadu_si128(raw + 1));
  a = {widen_f8_top(_mm256_slli_epi32(lo, 24)), widen_f8_top(_mm256_slli_epi32(hi, 24))};
  b = {widen_f8_top(_mm256_slli_epi32(lo, 16)), widen_f8_top(_mm256_slli_epi32(hi, 16))};
}

FATHOM_INLINE __m128i narrow_bf16(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  const __m256i words = _mm256_blendv_epi8(rounded, quiet, nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}
FATHOM_INLINE void vstore_bf16(void* p, V value) {
  _mm_storeu_si128(static_cast<__m128i*>(p), narrow_bf16(value.lo));
  _mm_storeu_si128(static_cast<__m128i*>(p) + 1, narrow_bf16(value.hi));
}

FATHOM_INLINE __m256i pack_words(__m256i lo, __m256i hi) {  // 32-bit lanes below 2^16 to 16 bits
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8);
}
FATHOM_INLINE void vstore_halves(void* low, void* high, V a) {
  const __m256i lo = _mm256_castps_si256(a.lo), hi = _mm256_castps_si256(a.hi);
  const __m256i mask = _mm256_set1_epi32(0xffff);
  _mm256_storeu_si256(static_cast<__m256i*>(low),
                      pack_words(_mm256_and_si256(lo, mask), _mm256_and_si256(hi, mask)));
  _mm256_storeu_si256(static_cast<__m256i*>(high),
                      pack_words(_mm256_srli_epi32(lo, 16), _mm256_srli_epi32(hi, 16)));
}

FATHOM_INLINE float vreduce_add(V a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
FATHOM_INLINE float vreduce_max(V a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

FATHOM_INLINE void transpose8(__m256* r) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}
FATHOM_INLINE void vtranspose16(V* rows) {
  __m256 quarter[4][8];
  for (int i = 0; i < 8; ++i) {
    quarter[0][i] = rows[i].lo;
    quarter[1][i] = rows[i + 8].lo;
    quarter[2][i] = rows[i].hi;
    quarter[3][i] = rows[i + 8].hi;
  }
  for (int q = 0; q < 4; ++q) transpose8(quarter[q]);
  for (int i = 0; i < 8; ++i) {
    rows[i] = {quarter[0][i], quarter[1][i]};
    rows[i + 8] = {quarter[2][i], quarter[3][i]};
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
