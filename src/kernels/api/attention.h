// Causal attention over a paged cache: write the rows' entries first, then attend.
//
// One kernel serves MLA in absorbed form (one key head; key = latent and rope, value = the latent
// part of the same entry) and MHA/GQA (entry = keys of all kv heads, then values).
//
// Contract for query (row i, head h), position p: tokens 0..p of the row's own sequence are taken
// in splits of 128 at absolute positions. Within a split over its visible tokens t, ascending:
//   s_t = scale * chain_d fma(q[d], key_t[d], .) from +0;   m = max s_t;   p_t = exp(s_t - m);
//   l = sum p_t: 16 lanes (t mod 16) ascending, added in halves;   o[d] = chain_t fma(p_t,
//   value_t[d], .).
// Splits merge in ascending order: M' = max(M, m), a = exp(M - M'), b = exp(m - M'),
//   L = fma(l, b, L*a), O = fma(o, b, O*a); the result is O / L.
// Cached values are read as stored (fp32, or bf16 widened exactly).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "kernels/api/context.h"

namespace fathom::kernels {

constexpr int64_t kAttentionSplit = 128;  // tokens per softmax split, at absolute positions

// One layer's entries in paged memory: token `o` of page p starts at
// base + p * page_bytes + layer_offset + o * entry_bytes. Owned by the caller of the step.
struct PagedKv {
  std::byte* base = nullptr;
  int64_t page_bytes = 0;
  int64_t layer_offset = 0;
  int64_t entry_bytes = 0;
  int32_t page_size = 0;      // tokens
  DType dtype = DType::kF32;  // kF32 or kBF16
};

// The rows of a step. Any mix of sequences; rows of one sequence that lie next to each other in
// ascending position share key reads.
struct AttentionRows {
  std::span<const int32_t> sequences;  // [m] index into page_tables
  std::span<const int32_t> positions;  // [m]
  // [sequences]: page numbers of each sequence, at least position / page_size + 1 of them.
  std::span<const int32_t* const> page_tables;
};

// A run of consecutive elements of each row's entry.
struct KvPart {
  const float* src = nullptr;  // [m, width]
  int64_t src_stride = 0;
  int64_t width = 0;
  int64_t offset = 0;  // first element within the entry
};
// Stores the rows' entries at (sequence, position): fp32, or bf16 rounded to nearest even.
void kv_write(KernelContext& ctx, const PagedKv& kv, const AttentionRows& rows,
              std::span<const KvPart> parts);

struct AttentionArgs {
  PagedKv kv;
  AttentionRows rows;
  const float* q = nullptr;  // [m, heads, key_dim]
  int64_t q_row_stride = 0;
  int64_t q_head_stride = 0;
  float* out = nullptr;  // [m, heads, value_dim]
  int64_t out_row_stride = 0;
  int64_t out_head_stride = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads; query head h reads kv head h / (heads / kv_heads)
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  int64_t value_offset =
      0;  // element of kv head 0's value in the entry; key of head g at g * key_dim,
          // value at value_offset + g * value_dim. MLA: kv_heads 1, value_offset 0
  float scale = 1;
};
void attention(KernelContext& ctx, const AttentionArgs& args);

}  // namespace fathom::kernels
