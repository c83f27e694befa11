// Row-wise operations: norm, embedding, sums, activation, argmax, log-sum-exp.
#include "kernels/api/elementwise.h"

#include "kernels/api/math.h"
#include "kernels/api/norm.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/parallel.h"

namespace fathom::kernels {
namespace {

constexpr int64_t kChunk = 4096;  // elements of an elementwise unit

int32_t argmax_row(const float* x, int64_t n) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] == x[i] && (best < 0 || x[i] > x[best])) best = i;
  }
  return static_cast<int32_t>(best < 0 ? 0 : best);
}

}  // namespace

void rms_norm(KernelContext& ctx, const NormArgs& a) {
  for_ranges(ctx, a.m, a.h * 12, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      ctx.table().rms_norm_row(a.x + i * a.x_stride, a.weight, a.eps, a.y + i * a.y_stride, a.h);
    }
  });
}

void embed(KernelContext& ctx, const void* table, DType dtype, int64_t hidden,
           std::span<const int32_t> ids, float* out) {
  const Stored stored = dtype == DType::kF32   ? Stored::kF32
                        : dtype == DType::kF16 ? Stored::kF16
                                               : Stored::kBF16;
  const int64_t row_bytes = hidden * static_cast<int64_t>(dtype_size(dtype));
  const auto* rows = static_cast<const std::byte*>(table);
  for_ranges(ctx, static_cast<int64_t>(ids.size()), hidden * 8, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      ctx.table().widen_row(rows + ids[static_cast<size_t>(i)] * row_bytes, stored,
                            out + i * hidden, hidden);
    }
  });
}

void add(KernelContext& ctx, const float* a, const float* b, float* out, int64_t n) {
  for_ranges(ctx, (n + kChunk - 1) / kChunk, kChunk * 12, [&](int64_t first, int64_t last) {
    const int64_t at = first * kChunk;
    ctx.table().add(a + at, b + at, out + at, std::min(n, last * kChunk) - at);
  });
}

void silu_mul(KernelContext& ctx, const float* gate, const float* up, float* out, int64_t n) {
  for_ranges(ctx, (n + kChunk - 1) / kChunk, kChunk * 24, [&](int64_t first, int64_t last) {
    const int64_t at = first * kChunk;
    ctx.table().silu_mul(gate + at, up + at, out + at, std::min(n, last * kChunk) - at);
  });
}

void argmax(KernelContext& ctx, const float* x, int64_t stride, int64_t m, int64_t n,
            int32_t* ids) {
  for_ranges(ctx, m, n * 4, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) ids[i] = argmax_row(x + i * stride, n);
  });
}

void logsumexp(KernelContext& ctx, const float* x, int64_t stride, int64_t m, int64_t n,
               float* out) {
  for_ranges(ctx, m, n * 16, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const float* row = x + i * stride;
      const float max = ctx.table().row_max(row, n);
      const float sum = ctx.table().sum_exp(row, max, n);
      out[i] = static_cast<float>(static_cast<double>(max) + log_f64(static_cast<double>(sum)));
    }
  });
}

}  // namespace fathom::kernels
