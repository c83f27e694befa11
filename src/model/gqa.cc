// Grouped-query (and multi-head) attention: keys and values of every kv head in the cache.
#include "kernels/api/rope.h"
#include "model/blocks.h"

namespace fathom {

void gqa_attention(StepRows& step, const AttentionSpec& spec, const GqaWeights& weights,
                   const float* normed, float* x) {
  const int64_t m = step.rows;
  const int64_t d = spec.head_dim;
  const int64_t q_width = spec.num_attention_heads * d;
  const int64_t kv_width = spec.num_key_value_heads * d;
  const int64_t hidden = weights.o_proj.weight.n;
  float* q = step.work.q.reserve(static_cast<size_t>(m * q_width));           // [m, heads, d]
  float* k = step.work.kv.reserve(static_cast<size_t>(2 * m * kv_width));     // [m, kv_heads, d]
  float* v = k + m * kv_width;                                                // [m, kv_heads, d]
  float* out = step.work.attended.reserve(static_cast<size_t>(m * q_width));  // [m, heads, d]

  const auto project = [&](const Projection& p, float* y, int64_t width) {
    return kernels::LinearTask{.w = &p.weight,
                               .x = normed,
                               .x_stride = hidden,
                               .y = y,
                               .y_stride = width,
                               .m = m,
                               .bias = p.bias};
  };
  const kernels::LinearTask tasks[] = {project(weights.q_proj, q, q_width),
                                       project(weights.k_proj, k, kv_width),
                                       project(weights.v_proj, v, kv_width)};
  kernels::linear_many(step.ctx, tasks);

  const auto rotate = [&](float* heads, int64_t width) {
    kernels::rope_apply(step.ctx, {.cos = step.cos,
                                   .sin = step.sin,
                                   .x = heads,
                                   .row_stride = width,
                                   .head_stride = d,
                                   .m = m,
                                   .heads = width / d,
                                   .d = d,
                                   .layout = kernels::RopeLayout::kHalfSplit});
  };
  rotate(q, q_width);
  rotate(k, kv_width);

  const kernels::KvPart parts[] = {
      {.src = k, .src_stride = kv_width, .width = kv_width, .offset = 0},
      {.src = v, .src_stride = kv_width, .width = kv_width, .offset = kv_width}};
  kernels::kv_write(step.ctx, step.kv, step.attention, parts);
  kernels::attention(step.ctx, {.kv = step.kv,
                                .rows = step.attention,
                                .q = q,
                                .q_row_stride = q_width,
                                .q_head_stride = d,
                                .out = out,
                                .out_row_stride = q_width,
                                .out_head_stride = d,
                                .heads = spec.num_attention_heads,
                                .kv_heads = spec.num_key_value_heads,
                                .key_dim = d,
                                .value_dim = d,
                                .value_offset = kv_width,
                                .scale = static_cast<float>(spec.softmax_scale)});
  kernels::linear(step.ctx, {.w = &weights.o_proj.weight,
                             .x = out,
                             .x_stride = q_width,
                             .y = x,
                             .y_stride = hidden,
                             .m = m,
                             .bias = weights.o_proj.bias,
                             .residual = x,
                             .residual_stride = hidden});
}

}  // namespace fathom
