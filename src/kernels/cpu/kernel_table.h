// The functions that exist once per instruction set, and the plain structs they take.
//
// Callers (the portable files beside this one) own blocking, threads and scratch; these functions
// own the arithmetic. All three tables compute the same bits. This header and what it includes must
// stay free of inline functions: it is compiled for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/weight_format.h"

namespace fathom::kernels {

enum class Isa : uint8_t;  // context.h

enum class Stored : uint8_t { kF32, kF16, kBF16 };  // element types of plain rows

constexpr int64_t kPanel = 64;        // outputs of a full panel
constexpr int64_t kSegment = 512;     // k of one chain
constexpr int64_t kSegmentF8 = 128;   // k of one chain with block scales
constexpr int64_t kWidenBlock = 128;  // k widened at a time for many rows: 32 KiB, stays in L1

// out[i][0..width) = the fold of linear.h for rows x[i] against one panel, before bias and
// residual.
struct PanelArgs {
  WeightFormat format;
  const std::byte* panel;
  int64_t width;  // lanes of this panel: 16, 32, 48 or 64
  int64_t k;
  const float* scales;  // of the panel's 128 rows: [ceil(k/128)], or null
  const float* x;       // row i at x + (x_rows ? x_rows[i] : i) * x_stride
  int64_t x_stride;
  const int32_t* x_rows;  // or null
  int64_t m;
  float* out;      // [m, kPanel]
  float* widened;  // scratch [kWidenBlock, kPanel]
  float* carry;    // scratch [m, kPanel]
};

// y[i][0..n) from a panel's sums: bias and residual, or (up != null) silu(sums) * up.
struct StorePanelArgs {
  const float* sums;  // [m, kPanel]
  const float* up;    // [m, kPanel] or null
  const float* bias;  // [n] or null
  const float* residual;
  int64_t residual_stride;
  float* y;
  int64_t y_stride;
  int64_t m;
  int64_t n;
};

// One attention split: see attention.h. Query i sees the first visible[i] tokens; 0 leaves it
// alone.
struct SplitArgs {
  const std::byte* const* keys;    // [tokens]
  const std::byte* const* values;  // [tokens]
  int64_t tokens;                  // 1..kAttentionSplit
  Stored stored;                   // element type of keys and values: kF32 or kBF16
  int64_t key_dim;
  int64_t value_dim;
  const float* const* q;   // [queries]
  const int32_t* visible;  // [queries]
  int64_t queries;
  float scale;
  bool first;        // start the state instead of merging into it
  float* state_max;  // [queries]
  float* state_sum;  // [queries]
  float* state_out;  // [queries, value_dim rounded up to 16]
  float* scratch;    // see split_scratch_floats() in attention.cc
};

struct CombineArgs {
  const float* const* rows;  // [slots] expert outputs
  const float* weights;      // [slots]
  int64_t slots;
  const float* shared;    // or null
  const float* residual;  // or null
  float* y;
  int64_t n;
};

struct KernelTable {
  void (*panel)(const PanelArgs&);
  void (*store_panel)(const StorePanelArgs&);
  // Sixteen rows of `words` 32-bit words, transposed: word i of every row goes to dst + i * stride.
  void (*transpose_words)(const std::byte* const* rows, int64_t words, std::byte* dst,
                          int64_t stride);
  // The same for 16-bit halves: half i of every row goes to dst + i * stride; 2 * words halves.
  void (*transpose_halves)(const std::byte* const* rows, int64_t words, std::byte* dst,
                           int64_t stride);

  void (*attend_split)(const SplitArgs&);
  // Merges the state of one later split (max, sum, out) into the running one.
  void (*merge_state)(float* max, float* sum, float* out, float split_max, float split_sum,
                      const float* split_out, int64_t n);
  void (*divide_row)(const float* x, float divisor, float* y, int64_t n);

  void (*rms_norm_row)(const float* x, const float* weight, float eps, float* y, int64_t n);
  void (*combine_row)(const CombineArgs&);
  void (*add)(const float* a, const float* b, float* y, int64_t n);
  void (*silu_mul)(const float* gate, const float* up, float* y, int64_t n);
  void (*exp)(const float* x, float* y, int64_t n);
  void (*sigmoid)(const float* x, float* y, int64_t n);
  void (*silu)(const float* x, float* y, int64_t n);
  void (*softmax_row)(const float* x, float* y, int64_t n);
  float (*row_max)(const float* x, int64_t n);             // -inf for n = 0
  float (*sum_exp)(const float* x, float max, int64_t n);  // of exp(x - max)
  void (*widen_row)(const std::byte* src, Stored type, float* y, int64_t n);
  void (*narrow_bf16)(const float* x, std::byte* y, int64_t n);

  float (*read_stream)(const std::byte* p, int64_t bytes);  // reads every byte; a checksum
  float (*fma_burn)(int64_t rounds);  // rounds x kFmaBurnFmas fused multiply-adds
};
constexpr int64_t kFmaBurnFmas = 16 * 16;  // scalar multiply-adds per round

const KernelTable& scalar_table();
const KernelTable& avx2_table();    // call only where isa_supported(Isa::kAvx2)
const KernelTable& avx512_table();  // call only where isa_supported(Isa::kAvx512)
const KernelTable& table_for(Isa isa);

}  // namespace fathom::kernels
