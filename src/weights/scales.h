// Pairs FP8 weights with the scales of their blocks (`X.weight` and `X.weight_scale_inv`).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "weights/checkpoint.h"
#include "weights/report.h"

namespace fathom {

inline constexpr std::string_view kScaleSuffix = "_scale_inv";

// Rows and columns that share one scale: quantization_config.weight_block_size, 128 x 128 in V3.
struct BlockShape {
  int64_t rows = 128;
  int64_t cols = 128;
};

// An FP8 weight [rows, cols] with its scales [ceil(rows / block.rows), ceil(cols / block.cols)].
// Pointers are into the checkpoint, which must outlive this.
struct ScaledWeight {
  const TensorInfo* weight = nullptr;
  const TensorInfo* scale = nullptr;  // F32, BF16 or F8_E8M0
  BlockShape block;

  int64_t grid_rows() const { return (weight->shape[0] + block.rows - 1) / block.rows; }
  int64_t grid_cols() const { return (weight->shape[1] + block.cols - 1) / block.cols; }
  // Which scale belongs to an element. From the block size alone: the last block of a row or column
  // may be partial, so dividing the weight's shape by the grid's would give other blocks.
  int64_t scale_index(int64_t row, int64_t col) const {
    return row / block.rows * grid_cols() + col / block.cols;
  }
};

// Every F8_E4M3 tensor that has, or by its name should have, block scales, in the checkpoint's
// order. Offenders go to `report`: a weight without scales, scales without a weight or of a weight
// that is not F8_E4M3, wrong grid shapes and types, a weight that is not a matrix.
std::vector<ScaledWeight> pair_scales(const Checkpoint& checkpoint, BlockShape block,
                                      OffenderReport& report);

// The pair of one weight, or nothing (with its offenders in `report`).
std::optional<ScaledWeight> pair_scale(const Checkpoint& checkpoint, const TensorInfo& weight,
                                       BlockShape block, OffenderReport& report);

// The stored scales as float, row-major [grid_rows, grid_cols]. scale_fmt "ue8m0" only says that
// they are powers of two; the stored values are what counts. Refuses values that are not finite.
Result<std::vector<float>> read_scales(const Checkpoint& checkpoint, const ScaledWeight& pair);

}  // namespace fathom
