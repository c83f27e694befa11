// One attention split over the simd_*.h vector: transposed keys, scores, softmax, values, merge.
#pragma once

#include "kernels/cpu/linear_impl.h"

namespace fathom::kernels {
namespace {

constexpr int64_t kSplit = 128;

FATHOM_INLINE int64_t round16(int64_t n) {
  return (n + 15) / 16 * 16;
}

// Keys as panels [ceil(tokens/64)][key_dim][64]: one lane is one token. Lanes past `tokens` are
// zero and never read back.
void transpose_keys(const SplitArgs& a, float* out) {
  const int64_t size = a.stored == Stored::kF32 ? 4 : 2;
  for (int64_t t0 = 0; t0 < round16(a.tokens); t0 += 16) {
    float* panel = out + t0 / kPanel * a.key_dim * kPanel + t0 % kPanel;
    const int64_t tokens = a.tokens - t0 < 16 ? a.tokens - t0 : 16;
    for (int64_t d = 0; d < a.key_dim; d += 16) {
      V block[16];
      for (int64_t t = 0; t < 16; ++t) {
        block[t] =
            t < tokens ? load_stored(a.keys[t0 + t] + d * size, a.stored, a.key_dim - d) : vzero();
      }
      vtranspose16(block);
      const int64_t rows = a.key_dim - d < 16 ? a.key_dim - d : 16;
      for (int64_t r = 0; r < rows; ++r) vstore(panel + (d + r) * kPanel, block[r]);
    }
  }
}

void widen_values(const SplitArgs& a, int64_t stride, float* out) {
  const int64_t size = a.stored == Stored::kF32 ? 4 : 2;
  for (int64_t t = 0; t < a.tokens; ++t) {
    for (int64_t d = 0; d < a.value_dim; d += 16) {
      vstore(out + t * stride + d, load_stored(a.values[t] + d * size, a.stored, a.value_dim - d));
    }
  }
}

// scores [queries, kSplit]: unscaled chains over key_dim.
void split_scores(const SplitArgs& a, const float* keys, float* scores) {
  TileArgs t;
  t.w_stride = kPanel;
  t.count = a.key_dim;
  t.open = t.close = t.first = true;
  t.scale = nullptr;
  t.carry = nullptr;
  float out[kTileRows * kPanel];
  t.out = out;
  for (int64_t p = 0; p < a.tokens; p += kPanel) {
    const int64_t left = round16(a.tokens - p) / 16;
    const int vecs = static_cast<int>(left < 4 ? left : 4);
    for (int64_t i = 0; i < a.queries; i += kTileRows) {
      const int rows = static_cast<int>(a.queries - i < kTileRows ? a.queries - i : kTileRows);
      for (int r = 0; r < rows; ++r) t.x[r] = a.q[i + r];
      for (int v = 0; v < vecs; v += kTileVecs) {
        t.w = keys + p * a.key_dim + v * 16;
        t.out = out + v * 16;
        tile_rows(t, rows, vecs - v < kTileVecs ? vecs - v : kTileVecs);
      }
      for (int r = 0; r < rows; ++r) {
        float* row = scores + (i + r) * kSplit + p;
        for (int v = 0; v < vecs; ++v) vstore(row + v * 16, vload(out + r * kPanel + v * 16));
      }
    }
  }
}

// Scores of one query to probabilities; zero beyond its visible tokens. Returns maximum and sum.
FATHOM_INLINE void split_softmax(float* row, int64_t visible, float scale, float* max, float* sum) {
  for (int64_t t = 0; t < visible; t += 16) vstore(row + t, vmul(vload(row + t), vset1(scale)));
  *max = row_max(row, visible);
  V total = vzero();
  for (int64_t t = 0; t < visible; t += 16) {
    V p = exp_v(vsub(vload(row + t), vset1(*max)));
    if (visible - t < 16) {
      float lanes[16] = {};
      vstore_n(lanes, p, visible - t);
      p = vload(lanes);
    }
    vstore(row + t, p);
    total = vadd(total, p);
  }
  *sum = vreduce_add(total);
}

// acc over the values of `rows` queries for NV vectors of value dims. The common visible tokens run
// as one tile, each query's remaining ones alone, so that no chain sees a token beyond its own.
template <int R, int NV>
void weigh_values(const float* const* p, const int32_t* visible, const float* values,
                  int64_t stride, float* out) {
  V acc[R][NV];
  int64_t common = visible[0];
  for (int r = 0; r < R; ++r) common = visible[r] < common ? visible[r] : common;
  each<R, NV>(acc, [](V& s, int64_t) { s = vzero(); });
  chain<R, NV>(p, values, stride, common, acc);
  each<R, NV>(acc, [&](V& s, int64_t i) { vstore(out + i, s); });
  for (int r = 0; r < R; ++r) {
    if (visible[r] == common) continue;
    V one[1][NV];
    each<1, NV>(one, [&](V& s, int64_t i) { s = vload(out + r * kPanel + i); });
    const float* rest = p[r] + common;
    chain<1, NV>(&rest, values + common * stride, stride, visible[r] - common, one);
    each<1, NV>(one, [&](V& s, int64_t i) { vstore(out + r * kPanel + i, s); });
  }
}

template <int R>
void weigh_vecs(const float* const* p, const int32_t* visible, const float* values, int64_t stride,
                int vecs, float* out) {
  if constexpr (kTileVecs == 4) {
    switch (vecs) {
      case 4:
        return weigh_values<R, 4>(p, visible, values, stride, out);
      case 3:
        return weigh_values<R, 3>(p, visible, values, stride, out);
      case 2:
        return weigh_values<R, 2>(p, visible, values, stride, out);
      default:
        break;
    }
  }
  return weigh_values<R, 1>(p, visible, values, stride, out);
}

struct WeighArgs {
  const float* p[8];
  int32_t visible[8];
  int rows;
  const float* values;
  int64_t stride;
  int vecs;
};
FATHOM_INLINE void weigh_rows(const WeighArgs& a, float* out) {
  switch (a.rows) {
    case 1:
      return weigh_vecs<1>(a.p, a.visible, a.values, a.stride, a.vecs, out);
    case 2:
      return weigh_vecs<2>(a.p, a.visible, a.values, a.stride, a.vecs, out);
    case 3:
      return weigh_vecs<3>(a.p, a.visible, a.values, a.stride, a.vecs, out);
    case 4:
      return weigh_vecs<4>(a.p, a.visible, a.values, a.stride, a.vecs, out);
    case 5:
      return weigh_vecs<5>(a.p, a.visible, a.values, a.stride, a.vecs, out);
    default:
      return weigh_vecs<6>(a.p, a.visible, a.values, a.stride, a.vecs, out);
  }
}

// M' = max(M, m), a = exp(M - M'), b = exp(m - M').
struct MergeFactors {
  float old_factor;
  float new_factor;
};
FATHOM_INLINE float exp_one(float x) {
  float lanes[16];
  vstore(lanes, exp_v(vset1(x)));
  return lanes[0];
}
FATHOM_INLINE MergeFactors merge_maximum(float* max, float* sum, float split_max, float split_sum) {
  const float larger = *max > split_max ? *max : split_max;
  const MergeFactors f = {exp_one(*max - larger), exp_one(split_max - larger)};
  float lanes[16];
  vstore(lanes,
         vfma(vset1(split_sum), vset1(f.new_factor), vmul(vset1(*sum), vset1(f.old_factor))));
  *sum = lanes[0];
  *max = larger;
  return f;
}
FATHOM_INLINE V merge_out(V old_out, V split_out, MergeFactors f) {
  return vfma(split_out, vset1(f.new_factor), vmul(old_out, vset1(f.old_factor)));
}

void merge_state(float* max, float* sum, float* out, float split_max, float split_sum,
                 const float* split_out, int64_t n) {
  const MergeFactors f = merge_maximum(max, sum, split_max, split_sum);
  for (int64_t i = 0; i < n; i += 16) {
    vstore_n(out + i, merge_out(vload_n(out + i, n - i), vload_n(split_out + i, n - i), f), n - i);
  }
}

void split_values(const SplitArgs& a, const float* scores, const MergeFactors* factors,
                  const float* values) {
  const int64_t stride = round16(a.value_dim);
  float out[kTileRows * kPanel];
  for (int64_t d = 0; d < stride; d += 16 * kTileVecs) {
    const int64_t left = (stride - d) / 16;
    WeighArgs w;
    w.values = values + d;
    w.stride = stride;
    w.vecs = static_cast<int>(left < kTileVecs ? left : kTileVecs);
    for (int64_t i = 0; i < a.queries; i += kTileRows) {
      w.rows = static_cast<int>(a.queries - i < kTileRows ? a.queries - i : kTileRows);
      for (int r = 0; r < w.rows; ++r) {
        w.p[r] = scores + (i + r) * kSplit;
        w.visible[r] = a.visible[i + r];
      }
      weigh_rows(w, out);
      for (int r = 0; r < w.rows; ++r) {
        if (w.visible[r] == 0) continue;
        float* state = a.state_out + (i + r) * stride + d;
        for (int v = 0; v < w.vecs; ++v) {
          const V split = vload(out + r * kPanel + v * 16);
          const V merged =
              a.first ? split : merge_out(vload(state + v * 16), split, factors[i + r]);
          vstore(state + v * 16, merged);
        }
      }
    }
  }
}

// scratch: keys [2, key_dim, kPanel], values [kSplit, value stride], scores [queries, kSplit],
// factors [queries, 2].
void attend_split(const SplitArgs& a) {
  float* keys = a.scratch;
  float* values = keys + 2 * a.key_dim * kPanel;
  float* scores = values + kSplit * round16(a.value_dim);
  MergeFactors* factors = reinterpret_cast<MergeFactors*>(scores + a.queries * kSplit);
  transpose_keys(a, keys);
  widen_values(a, round16(a.value_dim), values);
  split_scores(a, keys, scores);
  for (int64_t i = 0; i < a.queries; ++i) {
    if (a.visible[i] == 0) continue;
    float max, sum;
    split_softmax(scores + i * kSplit, a.visible[i], a.scale, &max, &sum);
    if (a.first) {
      a.state_max[i] = max;
      a.state_sum[i] = sum;
    } else {
      factors[i] = merge_maximum(a.state_max + i, a.state_sum + i, max, sum);
    }
  }
  split_values(a, scores, factors, values);
}

}  // namespace
}  // namespace fathom::kernels
