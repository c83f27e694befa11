// The common engine of linear_many and the feed-forward kernels: products cut in panel units.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/api/context.h"
#include "kernels/api/linear.h"

namespace fathom::kernels {

// y[i] = epilogue(W x[row(i)]), row(i) = x_rows ? x_rows[i] : i. With `up`, y = silu(W x) * (up x).
struct PanelTask {
  const PackedMatrix* w = nullptr;
  const PackedMatrix* up = nullptr;  // of the same shape, or null
  const float* x = nullptr;
  int64_t x_stride = 0;
  const int32_t* x_rows = nullptr;  // [m] or null
  float* y = nullptr;
  int64_t y_stride = 0;
  int64_t m = 0;
  const float* bias = nullptr;
  const float* residual = nullptr;
  int64_t residual_stride = 0;
};

// Runs all tasks in one parallel region. Uses kSlotTasks and the worker scratch of `ctx`.
void run_panel_tasks(KernelContext& ctx, std::span<const PanelTask> tasks);

}  // namespace fathom::kernels
