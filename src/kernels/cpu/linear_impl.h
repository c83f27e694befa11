// Panel products over the simd_*.h vector: packed weights widened in registers for a few rows, in a
// small fp32 block for many; both run the same chains.
#pragma once

#include "kernels/cpu/math_impl.h"

namespace fathom::kernels {
namespace {

// How far ahead of a weight stream lines are fetched: from memory into the second-level cache, and
// from there into the first. One stage alone leaves 4 to 5% of the read bandwidth unused.
constexpr int64_t kPrefetchFar = 8192;
constexpr int64_t kPrefetchNear = 2048;

// acc[r][v] = fma(x[r][k], w[k][v], acc[r][v]) for ascending k.
template <int R, int NV>
FATHOM_INLINE void chain(const float* const* x, const float* w, int64_t w_stride, int64_t count,
                         V (&acc)[R][NV]) {
  const float* row[R];
  for (int r = 0; r < R; ++r) row[r] = x[r];
  for (int64_t k = 0; k < count; ++k) {
    V wv[NV];
    FATHOM_UNROLL
    for (int v = 0; v < NV; ++v) wv[v] = vload(w + v * 16);
    FATHOM_UNROLL
    for (int r = 0; r < R; ++r) {
      const V xv = vset1(row[r][k]);
      FATHOM_UNROLL
      for (int v = 0; v < NV; ++v) acc[r][v] = vfma(xv, wv[v], acc[r][v]);
    }
    w += w_stride;
  }
}

// One register tile over one widened block. Segment sums travel in `carry` between blocks.
struct TileArgs {
  const float* x[8];
  const float* w;
  int64_t w_stride;
  int64_t count;
  bool open;           // the block starts a segment
  bool close;          // the block ends a segment
  bool first;          // the segment is the first
  const float* scale;  // of the segment, or null
  float* carry;        // [rows, kPanel]
  float* out;          // [rows, kPanel]
};

// fn(accumulator, its offset in [rows, kPanel]) over a register tile, unrolled: the tile must never
// be indexed at run time, or it goes through memory.
template <int R, int NV, typename Fn>
FATHOM_INLINE void each(V (&acc)[R][NV], Fn fn) {
  FATHOM_UNROLL
  for (int r = 0; r < R; ++r) {
    FATHOM_UNROLL
    for (int v = 0; v < NV; ++v) fn(acc[r][v], r * kPanel + v * 16);
  }
}

// Adds segment sums to the totals: t = s for the first, t = t + s, or t = fma(s, scale, t).
template <int R, int NV>
FATHOM_INLINE void fold(V (&acc)[R][NV], const float* scale, bool first, float* total) {
  if (scale) {
    const V factor = vset1(*scale);
    if (first) {
      each<R, NV>(acc, [&](V& s, int64_t i) { vstore(total + i, vfma(s, factor, vzero())); });
    } else {
      each<R, NV>(acc,
                  [&](V& s, int64_t i) { vstore(total + i, vfma(s, factor, vload(total + i))); });
    }
  } else if (first) {
    each<R, NV>(acc, [&](V& s, int64_t i) { vstore(total + i, s); });
  } else {
    each<R, NV>(acc, [&](V& s, int64_t i) { vstore(total + i, vadd(vload(total + i), s)); });
  }
}

template <int R, int NV>
void tile(const TileArgs& a) {
  V acc[R][NV];
  if (a.open) {
    each<R, NV>(acc, [](V& s, int64_t) { s = vzero(); });
  } else {
    each<R, NV>(acc, [&](V& s, int64_t i) { s = vload(a.carry + i); });
  }
  chain<R, NV>(a.x, a.w, a.w_stride, a.count, acc);
  if (a.close) {
    fold<R, NV>(acc, a.scale, a.first, a.out);
  } else {
    each<R, NV>(acc, [&](V& s, int64_t i) { vstore(a.carry + i, s); });
  }
}

template <int R>
void tile_vecs(const TileArgs& a, int vecs) {
  if constexpr (kTileVecs == 4) {
    switch (vecs) {
      case 4:
        return tile<R, 4>(a);
      case 3:
        return tile<R, 3>(a);
      case 2:
        return tile<R, 2>(a);
      default:
        return tile<R, 1>(a);
    }
  } else {
    return tile<R, 1>(a);
  }
}

void tile_rows(const TileArgs& a, int rows, int vecs) {
  switch (rows) {
    case 1:
      return tile_vecs<1>(a, vecs);
    case 2:
      return tile_vecs<2>(a, vecs);
    case 3:
      return tile_vecs<3>(a, vecs);
    case 4:
      return tile_vecs<4>(a, vecs);
    case 5:
      return tile_vecs<5>(a, vecs);
    default:
      return tile_vecs<6>(a, vecs);
  }
}

// Two consecutive k of vector v of a panel.
template <WeightFormat F>
FATHOM_INLINE void load_two(const std::byte* panel, int64_t width, int64_t k, int v, V& a, V& b) {
  if constexpr (F == WeightFormat::kBF16) {
    vload_pair_bf16(panel + (k * width + v * 32) * 2, a, b);
  } else if constexpr (F == WeightFormat::kF8E4M3Block) {
    vload_pair_f8(panel + k * width + v * 32, a, b);
  } else if constexpr (F == WeightFormat::kF16) {
    a = vload_f16(panel + (k * width + v * 16) * 2);
    b = vload_f16(panel + ((k + 1) * width + v * 16) * 2);
  } else {
    const float* w = reinterpret_cast<const float*>(panel) + k * width + v * 16;
    a = vload(w);
    b = vload(w + width);
  }
}
// The same for the last k of an odd count, whose successor is padding or does not exist.
template <WeightFormat F>
FATHOM_INLINE V load_one(const std::byte* panel, int64_t width, int64_t k, int v) {
  if constexpr (F == WeightFormat::kF16) {
    return vload_f16(panel + (k * width + v * 16) * 2);
  } else if constexpr (F == WeightFormat::kF32) {
    return vload(reinterpret_cast<const float*>(panel) + k * width + v * 16);
  } else {
    V a, b;
    load_two<F>(panel, width, k, v, a, b);
    return a;
  }
}

template <WeightFormat F>
constexpr int64_t element_bytes() {
  return F == WeightFormat::kF32 ? 4 : F == WeightFormat::kF8E4M3Block ? 1 : 2;
}
template <WeightFormat F>
constexpr int64_t segment_of() {
  return F == WeightFormat::kF8E4M3Block ? kSegmentF8 : kSegment;
}

// R rows straight from packed weights, vectors [v0, v0 + NV) of the panel.
template <WeightFormat F, int R, int NV>
void direct(const PanelArgs& a, const float* const* x, int v0, float* out) {
  constexpr int64_t kSeg = segment_of<F>();
  const std::byte* panel = a.panel;
  const int64_t width = a.width;
  for (int64_t k0 = 0; k0 < a.k; k0 += kSeg) {
    const int64_t end = k0 + kSeg < a.k ? k0 + kSeg : a.k;
    V acc[R][NV];
    each<R, NV>(acc, [](V& s, int64_t) { s = vzero(); });
    int64_t k = k0;
    for (; k + 1 < end; k += 2) {
      V xa[R], xb[R];
      for (int r = 0; r < R; ++r) {
        xa[r] = vset1(x[r][k]);
        xb[r] = vset1(x[r][k + 1]);
      }
      const std::byte* stream = panel + (k * width + v0 * 16) * element_bytes<F>();
      for (int64_t line = 0; line < NV * 32 * element_bytes<F>(); line += 64) {
        prefetch_far(stream + kPrefetchFar + line);
        prefetch(stream + kPrefetchNear + line);
      }
      FATHOM_UNROLL
      for (int v = 0; v < NV; ++v) {
        V wa, wb;
        load_two<F>(panel, width, k, v0 + v, wa, wb);
        FATHOM_UNROLL
        for (int r = 0; r < R; ++r) acc[r][v] = vfma(xa[r], wa, acc[r][v]);
        FATHOM_UNROLL
        for (int r = 0; r < R; ++r) acc[r][v] = vfma(xb[r], wb, acc[r][v]);
      }
    }
    if (k < end) {
      FATHOM_UNROLL
      for (int v = 0; v < NV; ++v) {
        const V w = load_one<F>(panel, width, k, v0 + v);
        for (int r = 0; r < R; ++r) acc[r][v] = vfma(vset1(x[r][k]), w, acc[r][v]);
      }
    }
    const float* scale = F == WeightFormat::kF8E4M3Block ? a.scales + k0 / kScaleBlock : nullptr;
    fold<R, NV>(acc, scale, k0 == 0, out + v0 * 16);
  }
}

template <WeightFormat F, int R>
void direct_panel(const PanelArgs& a, const float* const* x, float* out) {
  constexpr int kVecs = R * 4 <= kDirectRows * 4 && kTileVecs == 4 ? 4 : R == 1 ? 4 : 2;
  const int vecs = static_cast<int>(a.width / 16);
  int v = 0;
  if constexpr (kVecs == 4) {
    for (; v + 4 <= vecs; v += 4) direct<F, R, 4>(a, x, v, out);
  }
  for (; v + 2 <= vecs; v += 2) direct<F, R, 2>(a, x, v, out);
  if (v < vecs) direct<F, R, 1>(a, x, v, out);
}

template <WeightFormat F>
void direct_rows(const PanelArgs& a, const float* const* x, int rows, float* out) {
  switch (rows) {
    case 1:
      return direct_panel<F, 1>(a, x, out);
    case 2:
      return direct_panel<F, 2>(a, x, out);
    default:
      break;
  }
  if constexpr (kDirectRows == 4) {
    if (rows == 3) return direct_panel<F, 3>(a, x, out);
    return direct_panel<F, 4>(a, x, out);
  }
}

// count values of k from k0 (even) of a panel as fp32 [count, width].
template <WeightFormat F>
void widen_block(const PanelArgs& a, int64_t k0, int64_t count, float* out) {
  const int vecs = static_cast<int>(a.width / 16);
  int64_t i = 0;
  for (; i + 1 < count; i += 2) {
    const std::byte* ahead = a.panel + (k0 + i) * a.width * element_bytes<F>() + kPrefetchFar;
    for (int64_t line = 0; line < a.width * 2 * element_bytes<F>(); line += 64)
      prefetch_far(ahead + line);
    for (int v = 0; v < vecs; ++v) {
      V wa, wb;
      load_two<F>(a.panel, a.width, k0 + i, v, wa, wb);
      vstore(out + i * a.width + v * 16, wa);
      vstore(out + (i + 1) * a.width + v * 16, wb);
    }
  }
  if (i < count) {
    for (int v = 0; v < vecs; ++v) {
      vstore(out + i * a.width + v * 16, load_one<F>(a.panel, a.width, k0 + i, v));
    }
  }
}

FATHOM_INLINE const float* panel_row(const PanelArgs& a, int64_t i) {
  return a.x + (a.x_rows ? a.x_rows[i] : i) * a.x_stride;
}

// The next tile's rows of x: pieces too short for the hardware to see a stream in them.
FATHOM_INLINE void prefetch_tile(const PanelArgs& a, int64_t first_row, int64_t k0, int64_t count) {
  for (int64_t i = first_row; i < first_row + kTileRows && i < a.m; ++i) {
    const float* row = panel_row(a, i) + k0;
    for (int64_t k = 0; k < count; k += 16) prefetch(row + k);
  }
}

// A tile's share of the next block's weights, so that memory works while the tiles multiply.
template <WeightFormat F>
FATHOM_INLINE void prefetch_weights(const PanelArgs& a, int64_t k0, int64_t count, int64_t row,
                                    int64_t rows) {
  const std::byte* next = a.panel + k0 * a.width * element_bytes<F>();
  const int64_t bytes = count * a.width * element_bytes<F>();
  const int64_t end = bytes * (row + rows) / a.m;
  for (int64_t at = bytes * row / a.m / 64 * 64; at < end; at += 64) prefetch_far(next + at);
}

template <WeightFormat F>
void widened_panel(const PanelArgs& a) {
  constexpr int64_t kSeg = segment_of<F>();
  const int vecs = static_cast<int>(a.width / 16);
  for (int64_t k0 = 0; k0 < a.k; k0 += kWidenBlock) {
    const int64_t count = k0 + kWidenBlock < a.k ? kWidenBlock : a.k - k0;
    const float* w = reinterpret_cast<const float*>(a.panel) + k0 * a.width;
    if (F != WeightFormat::kF32) {
      widen_block<F>(a, k0, count, a.widened);
      w = a.widened;
    }
    TileArgs t;
    t.w_stride = a.width;
    t.count = count;
    t.open = k0 % kSeg == 0;
    t.close = (k0 + count) % kSeg == 0 || k0 + count == a.k;
    t.first = k0 < kSeg;
    t.scale = F == WeightFormat::kF8E4M3Block ? a.scales + k0 / kScaleBlock : nullptr;
    for (int64_t i = 0; i < a.m; i += kTileRows) {
      const int rows = static_cast<int>(a.m - i < kTileRows ? a.m - i : kTileRows);
      for (int r = 0; r < rows; ++r) t.x[r] = panel_row(a, i + r) + k0;
      prefetch_tile(a, i + kTileRows, k0, count);
      prefetch_weights<F>(a, k0 + count, count, i, rows);
      for (int v = 0; v < vecs; v += kTileVecs) {
        t.w = w + v * 16;
        t.carry = a.carry + i * kPanel + v * 16;
        t.out = a.out + i * kPanel + v * 16;
        tile_rows(t, rows, vecs - v < kTileVecs ? vecs - v : kTileVecs);
      }
    }
  }
}

template <WeightFormat F>
void panel_format(const PanelArgs& a) {
  if (a.m > kDirectRows) return widened_panel<F>(a);
  const float* x[4];
  for (int64_t i = 0; i < a.m; ++i) x[i] = panel_row(a, i);
  direct_rows<F>(a, x, static_cast<int>(a.m), a.out);
}

void panel(const PanelArgs& a) {
  if (a.k == 0) {
    for (int64_t i = 0; i < a.m * kPanel; i += 16) vstore(a.out + i, vzero());
    return;
  }
  switch (a.format) {
    case WeightFormat::kF32:
      return panel_format<WeightFormat::kF32>(a);
    case WeightFormat::kF16:
      return panel_format<WeightFormat::kF16>(a);
    case WeightFormat::kBF16:
      return panel_format<WeightFormat::kBF16>(a);
    case WeightFormat::kF8E4M3Block:
      return panel_format<WeightFormat::kF8E4M3Block>(a);
  }
}

void store_panel(const StorePanelArgs& a) {
  for (int64_t i = 0; i < a.m; ++i) {
    for (int64_t j = 0; j < a.n; j += 16) {
      V t = vload(a.sums + i * kPanel + j);
      if (a.up) t = silu_mul_v(t, vload(a.up + i * kPanel + j));
      if (a.bias) t = vadd(t, vload_n(a.bias + j, a.n - j));
      if (a.residual) t = vadd(vload_n(a.residual + i * a.residual_stride + j, a.n - j), t);
      vstore_n(a.y + i * a.y_stride + j, t, a.n - j);
    }
  }
}

void transpose_words(const std::byte* const* rows, int64_t words, std::byte* dst, int64_t stride) {
  int64_t i = 0;
  for (; i + 16 <= words; i += 16) {
    V block[16];
    for (int r = 0; r < 16; ++r) block[r] = vload(reinterpret_cast<const float*>(rows[r]) + i);
    vtranspose16(block);
    for (int r = 0; r < 16; ++r) vstore(reinterpret_cast<float*>(dst + (i + r) * stride), block[r]);
  }
  for (; i < words; ++i) {
    for (int r = 0; r < 16; ++r) __builtin_memcpy(dst + i * stride + r * 4, rows[r] + i * 4, 4);
  }
}

void transpose_halves(const std::byte* const* rows, int64_t words, std::byte* dst, int64_t stride) {
  int64_t i = 0;
  for (; i + 16 <= words; i += 16) {
    V block[16];
    for (int r = 0; r < 16; ++r) block[r] = vload(reinterpret_cast<const float*>(rows[r]) + i);
    vtranspose16(block);
    for (int r = 0; r < 16; ++r) {
      std::byte* out = dst + (i + r) * 2 * stride;
      vstore_halves(out, out + stride, block[r]);
    }
  }
  for (i *= 2; i < words * 2; ++i) {
    for (int r = 0; r < 16; ++r) __builtin_memcpy(dst + i * stride + r * 2, rows[r] + i * 2, 2);
  }
}

}  // namespace
}  // namespace fathom::kernels
