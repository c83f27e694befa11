// Multi-head latent attention in absorbed form: one latent and one rotated key a token in the
// cache, shared by all heads.
#include <algorithm>
#include <cstring>

#include "kernels/api/norm.h"
#include "kernels/api/rope.h"
#include "model/blocks.h"

namespace fathom {
namespace {

// Published code gives the low-rank norms 1e-6 whatever rms_norm_eps says.
constexpr float kLatentNormEps = 1e-6f;

struct Dims {
  int64_t m, hidden, heads, nope, rope, latent, v;
  int64_t q_head() const { return nope + rope; }   // width of a query head
  int64_t entry() const { return latent + rope; }  // width of a cache entry
  int64_t q_width() const { return heads * q_head(); }
};

kernels::LinearTask task(const kernels::PackedMatrix& w, const float* x, float* y, int64_t m) {
  return {.w = &w, .x = x, .x_stride = w.k, .y = y, .y_stride = w.n, .m = m};
}

void norm_in_place(StepRows& step, float* x, int64_t stride, const float* weight, int64_t width) {
  kernels::rms_norm(step.ctx, {.x = x,
                               .x_stride = stride,
                               .weight = weight,
                               .eps = kLatentNormEps,
                               .y = x,
                               .y_stride = stride,
                               .m = step.rows,
                               .h = width});
}

// q [m, heads, nope + rope] and the cache entry kv [m, latent + rope], before norm and rotation.
void project(StepRows& step, const MlaWeights& weights, const float* normed, float* q, float* kv) {
  const int64_t m = step.rows;
  kernels::LinearTask kv_a = task(weights.kv_a_proj_with_mqa.weight, normed, kv, m);
  kv_a.bias = weights.kv_a_proj_with_mqa.bias;
  if (weights.q_a_layernorm == nullptr) {
    const kernels::LinearTask tasks[] = {task(weights.q_proj, normed, q, m), kv_a};
    kernels::linear_many(step.ctx, tasks);
    return;
  }
  const int64_t rank = weights.q_a_proj.weight.n;
  float* q_a = step.work.q_a.reserve(static_cast<size_t>(m * rank));
  kernels::LinearTask q_a_task = task(weights.q_a_proj.weight, normed, q_a, m);
  q_a_task.bias = weights.q_a_proj.bias;
  const kernels::LinearTask tasks[] = {q_a_task, kv_a};
  kernels::linear_many(step.ctx, tasks);
  norm_in_place(step, q_a, rank, weights.q_a_layernorm, rank);
  kernels::linear(step.ctx, task(weights.q_b_proj, q_a, q, m));
}

void rotate(StepRows& step, const AttentionSpec& spec, float* first, int64_t row_stride,
            int64_t heads) {
  kernels::rope_apply(step.ctx,
                      {.cos = step.cos,
                       .sin = step.sin,
                       .x = first,
                       .row_stride = row_stride,
                       .head_stride = row_stride / heads,
                       .m = step.rows,
                       .heads = heads,
                       .d = spec.qk_rope_head_dim,
                       .layout = spec.rope.interleaved ? kernels::RopeLayout::kInterleaved
                                                       : kernels::RopeLayout::kHalfSplit});
}

// query [m, heads, latent + rope] = [W_UK^T q_nope | q_rope]: what meets the cache entries.
void absorb_query(StepRows& step, const Dims& n, const MlaWeights& weights, const float* q,
                  float* query) {
  kernels::head_linear(step.ctx, {.heads = weights.w_uk_t,
                                  .x = q,
                                  .x_row_stride = n.q_width(),
                                  .x_head_stride = n.q_head(),
                                  .y = query,
                                  .y_row_stride = n.heads * n.entry(),
                                  .y_head_stride = n.entry(),
                                  .m = n.m});
  constexpr int64_t kRowsPerUnit = 16;
  const auto copy_rows = [&](int64_t unit, int) {
    const int64_t end = std::min(n.m, (unit + 1) * kRowsPerUnit);
    for (int64_t head = unit * kRowsPerUnit * n.heads; head < end * n.heads; ++head) {
      std::memcpy(query + head * n.entry() + n.latent, q + head * n.q_head() + n.nope,
                  static_cast<size_t>(n.rope) * sizeof(float));
    }
  };
  if (n.m <= kRowsPerUnit) {
    copy_rows(0, 0);  // a few rows: waking the threads would cost more
  } else {
    step.ctx.pool().parallel_for((n.m + kRowsPerUnit - 1) / kRowsPerUnit, copy_rows);
  }
}

}  // namespace

void mla_attention(StepRows& step, const AttentionSpec& spec, const MlaWeights& weights,
                   const float* normed, float* x) {
  const Dims n{step.rows,
               weights.o_proj.weight.n,
               spec.num_attention_heads,
               spec.qk_nope_head_dim,
               spec.qk_rope_head_dim,
               spec.kv_lora_rank,
               spec.v_head_dim};
  const auto reserve = [&](FloatBuffer& buffer, int64_t width) {
    return buffer.reserve(static_cast<size_t>(n.m * width));
  };
  float* q = reserve(step.work.q, n.q_width());                       // [m, heads, nope + rope]
  float* kv = reserve(step.work.kv, n.entry());                       // [m, latent + rope]
  float* query = reserve(step.work.query, n.heads * n.entry());       // [m, heads, latent + rope]
  float* attended = reserve(step.work.attended, n.heads * n.latent);  // [m, heads, latent]
  float* values = reserve(step.work.values, n.heads * n.v);           // [m, heads, v]

  project(step, weights, normed, q, kv);
  norm_in_place(step, kv, n.entry(), weights.kv_a_layernorm, n.latent);
  rotate(step, spec, kv + n.latent, n.entry(), 1);
  rotate(step, spec, q + n.nope, n.q_width(), n.heads);
  absorb_query(step, n, weights, q, query);

  const kernels::KvPart entry[] = {{.src = kv, .src_stride = n.entry(), .width = n.entry()}};
  kernels::kv_write(step.ctx, step.kv, step.attention, entry);
  kernels::attention(step.ctx, {.kv = step.kv,
                                .rows = step.attention,
                                .q = query,
                                .q_row_stride = n.heads * n.entry(),
                                .q_head_stride = n.entry(),
                                .out = attended,
                                .out_row_stride = n.heads * n.latent,
                                .out_head_stride = n.latent,
                                .heads = n.heads,
                                .kv_heads = 1,
                                .key_dim = n.entry(),
                                .value_dim = n.latent,
                                .scale = static_cast<float>(spec.softmax_scale)});
  kernels::head_linear(step.ctx, {.heads = weights.w_uv,
                                  .x = attended,
                                  .x_row_stride = n.heads * n.latent,
                                  .x_head_stride = n.latent,
                                  .y = values,
                                  .y_row_stride = n.heads * n.v,
                                  .y_head_stride = n.v,
                                  .m = n.m});
  kernels::linear(step.ctx, {.w = &weights.o_proj.weight,
                             .x = values,
                             .x_stride = n.heads * n.v,
                             .y = x,
                             .y_stride = n.hidden,
                             .m = n.m,
                             .bias = weights.o_proj.bias,
                             .residual = x,
                             .residual_stride = n.hidden});
}

}  // namespace fathom
