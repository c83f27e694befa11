// Dense SwiGLU network of a layer.
#include "model/blocks.h"

namespace fathom {

void dense_ffn(StepRows& step, const kernels::FfnWeights& weights, const float* normed, float* x) {
  const int64_t hidden = weights.down.n;
  kernels::ffn(step.ctx, {.weights = &weights,
                          .x = normed,
                          .x_stride = hidden,
                          .y = x,
                          .y_stride = hidden,
                          .residual = x,
                          .residual_stride = hidden,
                          .m = step.rows});
}

}  // namespace fathom
