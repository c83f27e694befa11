// The 16-lane vector of the portable oracle: plain loops over float[16] with std::fma.
//
// Every simd_*.h defines the same names in an anonymous namespace, and *_impl.h is compiled once
// per instruction set on top of one of them. Sixteen lanes everywhere, so lane-wise reductions have
// the same shape on each set; Highway's vectors have the machine's own width, which is why it is
// not used.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/dtype.h"

namespace fathom::kernels {
namespace {

constexpr int kTileRows = 4;  // register tile of the widened product
constexpr int kTileVecs = 1;
constexpr int kDirectRows = 2;  // rows up to which packed weights are widened in registers

#define FATHOM_INLINE static inline

struct V {
  float lane[16];
};
struct VI {
  int32_t lane[16];
};

template <typename Fn>
inline V map(Fn fn) {
  V out;
  for (int i = 0; i < 16; ++i) out.lane[i] = fn(i);
  return out;
}
template <typename Fn>
inline VI map_int(Fn fn) {
  VI out;
  for (int i = 0; i < 16; ++i) out.lane[i] = fn(i);
  return out;
}

inline V vset1(float value) {
  return map([&](int) { return value; });
}
inline V vzero() {
  return vset1(0.0f);
}
inline V vload(const float* p) {
  V out;
  std::memcpy(out.lane, p, sizeof(out.lane));
  return out;
}
inline void vstore(float* p, V a) {
  std::memcpy(p, a.lane, sizeof(a.lane));
}
inline V vload_n(const float* p, int64_t n) {
  return map([&](int i) { return i < n ? p[i] : 0.0f; });
}
inline void vstore_n(float* p, V a, int64_t n) {
  std::memcpy(p, a.lane, static_cast<size_t>(n < 16 ? n : 16) * 4);
}

inline V vadd(V a, V b) {
  return map([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline V vsub(V a, V b) {
  return map([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline V vmul(V a, V b) {
  return map([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline V vdiv(V a, V b) {
  return map([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline V vfma(V a, V b, V c) {
  return map([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
}
inline V vmax(V a, V b) {  // b when either is NaN, as MAXPS
  return map([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline V vmin(V a, V b) {
  return map([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline V vsqrt(V a) {
  return map([&](int i) { return std::sqrt(a.lane[i]); });
}
inline V vabs(V a) {
  return map([&](int i) { return std::fabs(a.lane[i]); });
}
// a where x < 0, else b (also for NaN).
inline V vselect_negative(V x, V a, V b) {
  return map([&](int i) { return x.lane[i] < 0.0f ? a.lane[i] : b.lane[i]; });
}

inline VI vbits(V a) {
  return map_int([&](int i) { return std::bit_cast<int32_t>(a.lane[i]); });
}
inline V vfrom_bits(VI a) {
  return map([&](int i) { return std::bit_cast<float>(a.lane[i]); });
}
inline VI iset1(int32_t value) {
  return map_int([&](int) { return value; });
}
inline VI iadd(VI a, VI b) {
  return map_int([&](int i) {
    return static_cast<int32_t>(static_cast<uint32_t>(a.lane[i]) +
                                static_cast<uint32_t>(b.lane[i]));
  });
}
inline VI isub(VI a, VI b) {
  return map_int([&](int i) {
    return static_cast<int32_t>(static_cast<uint32_t>(a.lane[i]) -
                                static_cast<uint32_t>(b.lane[i]));
  });
}
inline VI ihalf(VI a) {  // arithmetic shift right by one
  return map_int([&](int i) { return a.lane[i] >> 1; });
}
inline VI ishift_exponent(VI a) {  // << 23
  return map_int(
      [&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.lane[i]) << 23); });
}

template <typename T>
inline T raw_at(const void* p, int i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(p) + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}
inline V vload_bf16(const void* p) {
  return map([&](int i) { return bf16_to_float(raw_at<uint16_t>(p, i)); });
}
inline V vload_f16(const void* p) {
  return map([&](int i) { return f16_to_float(raw_at<uint16_t>(p, i)); });
}
// 16 pairs [16][2] of bf16 / e4m3: element 0 of each pair in a, element 1 in b.
inline void vload_pair_bf16(const void* p, V& a, V& b) {
  a = map([&](int i) { return bf16_to_float(raw_at<uint16_t>(p, 2 * i)); });
  b = map([&](int i) { return bf16_to_float(raw_at<uint16_t>(p, 2 * i + 1)); });
}
inline void vload_pair_f8(const void* p, V& a, V& b) {
  a = map([&](int i) { return f8_e4m3_to_float(raw_at<uint8_t>(p, 2 * i)); });
  b = map([&](int i) { return f8_e4m3_to_float(raw_at<uint8_t>(p, 2 * i + 1)); });
}
inline void vstore_bf16(void* p, V a) {  // nearest even; NaN stays NaN
  for (int i = 0; i < 16; ++i) {
    const uint16_t bits = float_to_bf16(a.lane[i]);
    std::memcpy(static_cast<char*>(p) + 2 * i, &bits, 2);
  }
}

// The low and the high 16 bits of each lane.
inline void vstore_halves(void* low, void* high, V a) {
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(a.lane[i]);
    const uint16_t halves[2] = {static_cast<uint16_t>(bits), static_cast<uint16_t>(bits >> 16)};
    std::memcpy(static_cast<char*>(low) + 2 * i, &halves[0], 2);
    std::memcpy(static_cast<char*>(high) + 2 * i, &halves[1], 2);
  }
}

inline float vreduce_add(V a) {  // halves: lane j with j+8, +4, +2, +1
  for (int step = 8; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) a.lane[i] = a.lane[i] + a.lane[i + step];
  }
  return a.lane[0];
}
inline float vreduce_max(V a) {
  for (int step = 8; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i)
      a.lane[i] = a.lane[i] > a.lane[i + step] ? a.lane[i] : a.lane[i + step];
  }
  return a.lane[0];
}

inline void vtranspose16(V* rows) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < i; ++j) {
      const float t = rows[i].lane[j];
      rows[i].lane[j] = rows[j].lane[i];
      rows[j].lane[i] = t;
    }
  }
}
inline void prefetch(const void*) {}      // into the first-level cache
inline void prefetch_far(const void*) {}  // into the second-level cache

}  // namespace
}  // namespace fathom::kernels
