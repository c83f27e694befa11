// Matrix products with weights repacked at load: y = x W^T, W [n, k] in its stored format.
//
// Contract, for every output y[i][j] and every instruction set, batch and thread count:
//   k is cut in segments of kSegment (kF32, kF16, kBF16: 512; kF8E4M3Block: 128);
//   s_g = chain over the segment's k, ascending: s = fma(x[i][k], widen(W[j][k]), s), started at
//   +0; t = s_0 + s_1 + ... as a left fold (kF8E4M3Block: t = fma(s_g, scale[j/128][g], t), t
//   started at +0); with bias: t = t + bias[j]; with residual: y = residual[i][j] + t; else y = t.
// Widening to fp32 is exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "core/status.h"
#include "kernels/api/context.h"
#include "kernels/api/weight_format.h"

namespace fathom::kernels {

// A view of W [n, k] in panel order. Does not own memory: `data` (64-byte aligned, packed_bytes()
// long) and `scales` belong to the model and are read-only once loaded.
//
// Panels of 64 output rows (the last one: the rest, rounded up to 16), width w:
//   kF32, kF16: [k][w]   kBF16, kF8E4M3Block: [ceil(k/2)][w][2]
// so that one SIMD lane is one output and one panel is one linear stream. Padding is zero.
struct PackedMatrix {
  WeightFormat format = WeightFormat::kF32;
  int64_t n = 0;  // outputs
  int64_t k = 0;  // inputs
  std::byte* data = nullptr;
  const float* scales = nullptr;  // kF8E4M3Block: [ceil(n/128), ceil(k/128)], else null
};

// The format that keeps `dtype` as stored (F32, F16, BF16, F8_E4M3); others are not packable.
Result<WeightFormat> packed_format(DType dtype);
// Bytes of `data`; a multiple of 64. n, k >= 0; kInvalidArgument if the size overflows.
Result<size_t> packed_bytes(WeightFormat format, int64_t n, int64_t k);

// Packs source rows [first_row, first_row + rows) of W. src: row-major [rows, k] of `dtype`,
// consecutive rows `src_stride` elements apart (0 = k); any alignment. dtype must be the format's
// own, or F16/BF16/F8_E4M3 into kF32 (exact widening, no scale). Disjoint row ranges may be packed
// from several threads at once. `data` must be zero beforehand where padding lies (fresh memory
// is).
Status pack_rows(const PackedMatrix& w, int64_t first_row, int64_t rows, const void* src,
                 DType dtype, int64_t src_stride = 0);

// The same for a source that holds W^T: src row r is W[:, first_k + r], i.e. src is [count, n]
// (W_UK of MLA: stored [qk_nope, kv_lora], used as W [kv_lora, qk_nope]).
Status pack_transposed_rows(const PackedMatrix& w, int64_t first_k, int64_t count, const void* src,
                            DType dtype, int64_t src_stride = 0);

// One product. Strides are in elements between consecutive rows. y must not overlap x; it may be
// the residual itself.
struct LinearTask {
  const PackedMatrix* w = nullptr;
  const float* x = nullptr;  // [m, k]
  int64_t x_stride = 0;
  float* y = nullptr;  // [m, n]
  int64_t y_stride = 0;
  int64_t m = 0;
  const float* bias = nullptr;      // [n] or null
  const float* residual = nullptr;  // [m, n] or null
  int64_t residual_stride = 0;
};

// Runs all tasks in one parallel region (q_a with kv_a, gate with up, ...). Tasks must not read
// what another task of the list writes.
void linear_many(KernelContext& ctx, std::span<const LinearTask> tasks);
inline void linear(KernelContext& ctx, const LinearTask& task) {
  linear_many(ctx, {&task, 1});
}

// One matrix per head: y[i][h] = W_h x[i][h] (MLA's q' = W_UK^T q and o = W_UV u).
struct HeadLinearArgs {
  std::span<const PackedMatrix> heads;  // [heads] of the same n, k
  const float* x = nullptr;             // [m, heads, k]
  int64_t x_row_stride = 0;
  int64_t x_head_stride = 0;
  float* y = nullptr;  // [m, heads, n]
  int64_t y_row_stride = 0;
  int64_t y_head_stride = 0;
  int64_t m = 0;
};
void head_linear(KernelContext& ctx, const HeadLinearArgs& args);

}  // namespace fathom::kernels
