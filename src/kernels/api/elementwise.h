// Row-wise helpers: embedding look-up, sums, SwiGLU activation, argmax, log-sum-exp.
#pragma once

#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "kernels/api/context.h"

namespace fathom::kernels {

// out[i] = float(table[ids[i]]), table [vocab, hidden] row-major of F32, F16 or BF16.
// Every id must be in [0, vocab): the caller checks.
void embed(KernelContext& ctx, const void* table, DType dtype, int64_t hidden,
           std::span<const int32_t> ids, float* out);

void add(KernelContext& ctx, const float* a, const float* b, float* out, int64_t n);  // out = a + b
// out[i] = silu(gate[i]) * up[i]
void silu_mul(KernelContext& ctx, const float* gate, const float* up, float* out, int64_t n);

// ids[i] = index of the largest value of row i, the lowest on ties; NaN counts as -inf.
void argmax(KernelContext& ctx, const float* x, int64_t stride, int64_t m, int64_t n, int32_t* ids);

// out[i] = log(sum_j exp(x[i][j])): max, then 16 lanes of exp(x - max) added in halves; the log is
// taken in double and the sum rounded once. log-probability of j = x[i][j] - out[i].
void logsumexp(KernelContext& ctx, const float* x, int64_t stride, int64_t m, int64_t n,
               float* out);

}  // namespace fathom::kernels
