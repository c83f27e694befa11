// SwiGLU feed-forward: one dense network, or a mixture of experts with a shared one.
//
// h = silu(gate x) * (up x) in fp32 (linear.h's contract for the products), d = down h.
// Mixture: a = +0; for slot s = 0..slots-1 in the order given: a = fma(weight[i][s], d_s, a);
//          with a shared network: a = a + d_shared (unscaled); with residual: y = residual + a.
// Dense:   y = residual + d, or d.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/api/context.h"
#include "kernels/api/linear.h"

namespace fathom::kernels {

struct FfnWeights {
  PackedMatrix gate;  // [intermediate, hidden]
  PackedMatrix up;    // [intermediate, hidden]
  PackedMatrix down;  // [hidden, intermediate]
};

struct FfnArgs {
  const FfnWeights* weights = nullptr;
  const float* x = nullptr;  // [m, hidden]
  int64_t x_stride = 0;
  float* y = nullptr;  // [m, hidden]; may be the residual, must not overlap x
  int64_t y_stride = 0;
  const float* residual = nullptr;  // [m, hidden] or null
  int64_t residual_stride = 0;
  int64_t m = 0;
};
void ffn(KernelContext& ctx, const FfnArgs& args);

// Experts share one intermediate size; the shared network (n_shared_experts fused) has its own.
struct MoeArgs {
  std::span<const FfnWeights> experts;  // [experts]
  const FfnWeights* shared = nullptr;   // or null
  const float* x = nullptr;             // [m, hidden]
  int64_t x_stride = 0;
  const int32_t* ids = nullptr;    // [m, slots], each in [0, experts)
  const float* weights = nullptr;  // [m, slots]
  int64_t slots = 0;
  float* y = nullptr;  // [m, hidden]; may be the residual, must not overlap x
  int64_t y_stride = 0;
  const float* residual = nullptr;  // [m, hidden] or null
  int64_t residual_stride = 0;
  int64_t m = 0;
};
void moe(KernelContext& ctx, const MoeArgs& args);

}  // namespace fathom::kernels
