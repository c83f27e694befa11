// The forward pass: embedding, decoder layers, final norm, logits.
#include "model/forward.h"

#include <cstring>

#include "kernels/api/elementwise.h"
#include "kernels/api/norm.h"
#include "kernels/api/rope.h"
#include "model/blocks.h"

namespace fathom {
namespace {

void norm(StepRows& step, const float* x, const float* weight, float* y, int64_t hidden) {
  kernels::rms_norm(step.ctx, {.x = x,
                               .x_stride = hidden,
                               .weight = weight,
                               .eps = step.eps,
                               .y = y,
                               .y_stride = hidden,
                               .m = step.rows,
                               .h = hidden});
}

// x += attention(norm(x)); x += ffn(norm(x)).
void decoder_layer(StepRows& step, const LayerSpec& spec, const LayerWeights& weights, float* x,
                   RouterTrace* trace) {
  const int64_t hidden = step.hidden;
  float* normed = step.work.normed.reserve(static_cast<size_t>(step.rows * hidden));

  norm(step, x, weights.input_layernorm, normed, hidden);
  if (spec.attention.kind == AttentionKind::kMla) {
    mla_attention(step, spec.attention, weights.mla, normed, x);
  } else {
    gqa_attention(step, spec.attention, weights.gqa, normed, x);
  }

  norm(step, x, weights.post_attention_layernorm, normed, hidden);
  if (spec.ffn.kind == FfnKind::kMoe) {
    moe_ffn(step, spec.ffn, weights.moe, normed, x, trace);
  } else {
    dense_ffn(step, weights.mlp, normed, x);
  }
}

void compute_angles(const ForwardModel& model, Workspace& work,
                    std::span<const int32_t> positions) {
  work.cos.resize(model.ropes.size());
  work.sin.resize(model.ropes.size());
  for (size_t i = 0; i < model.ropes.size(); ++i) {
    const RopeTable& rope = model.ropes[i];
    const size_t size = positions.size() * rope.inv_freq.size();
    kernels::rope_angles(rope.inv_freq, rope.mscale, positions, work.cos[i].reserve(size),
                         work.sin[i].reserve(size));
  }
}

// Points the step at one layer's share of every page, and at its rotary angles.
void enter_layer(const ForwardModel& model, const KvMemory& kv, size_t layer, StepRows& step) {
  const auto element = static_cast<int64_t>(dtype_size(model.kv_dtype));
  step.kv.base = kv.base;
  step.kv.page_bytes = static_cast<int64_t>(kv.page_stride);
  step.kv.layer_offset = model.layer_offset[layer] * kv.page_size;
  step.kv.entry_bytes = kv_entry_width(model.config->layers[layer].attention) * element;
  step.kv.page_size = kv.page_size;
  step.kv.dtype = model.kv_dtype;
  const auto rope = static_cast<size_t>(model.layer_rope[layer]);
  const size_t size = static_cast<size_t>(step.rows) * model.ropes[rope].inv_freq.size();
  step.cos = step.work.cos[rope].reserve(size);
  step.sin = step.work.sin[rope].reserve(size);
}

void append(std::vector<float>& to, const float* from, int64_t count) {
  to.insert(to.end(), from, from + count);
}

RouterTrace* router_trace(StepTrace* trace, const LayerSpec& spec, int layer) {
  if (trace == nullptr || spec.ffn.kind != FfnKind::kMoe) return nullptr;
  for (RouterTrace& router : trace->routers) {
    if (router.layer == layer) return &router;
  }
  trace->routers.emplace_back();
  trace->routers.back().layer = layer;
  return &trace->routers.back();
}

}  // namespace

int64_t kv_entry_width(const AttentionSpec& spec) {
  return spec.kind == AttentionKind::kMla ? int64_t{spec.kv_lora_rank} + spec.qk_rope_head_dim
                                          : int64_t{2} * spec.num_key_value_heads * spec.head_dim;
}

void forward_rows(const ForwardModel& model, kernels::KernelContext& ctx, Workspace& work,
                  const StepPlan& plan, const KvMemory& kv, RowRange range, StepTrace* trace) {
  const ModelConfig& config = *model.config;
  const auto slice = [&](const std::vector<int32_t>& all) {
    return std::span(all).subspan(static_cast<size_t>(range.first),
                                  static_cast<size_t>(range.count));
  };
  const int64_t size = range.count * config.hidden_size;
  StepRows step{.ctx = ctx,
                .work = work,
                .rows = range.count,
                .hidden = config.hidden_size,
                .eps = static_cast<float>(config.rms_norm_eps)};
  step.attention = {slice(plan.sequences), slice(plan.positions), work.page_tables};
  compute_angles(model, work, step.attention.positions);

  float* x = work.x.reserve(static_cast<size_t>(size));  // [rows, hidden]
  kernels::embed(ctx, model.weights->embed_tokens.data, model.weights->embed_tokens.dtype,
                 config.hidden_size, slice(plan.tokens), x);
  if (trace != nullptr) append(trace->embed, x, size);

  for (size_t i = 0; i < config.layers.size(); ++i) {
    enter_layer(model, kv, i, step);
    decoder_layer(step, config.layers[i], model.weights->layers[i], x,
                  router_trace(trace, config.layers[i], static_cast<int>(i)));
    if (trace != nullptr) append(trace->hidden[i], x, size);
  }
  if (trace != nullptr) {
    float* normed = work.normed.reserve(static_cast<size_t>(size));
    norm(step, x, model.weights->norm, normed, config.hidden_size);
    append(trace->norm, normed, size);
  }
}

void forward_head(const ForwardModel& model, kernels::KernelContext& ctx, Workspace& work,
                  const HeadRows& rows) {
  const int64_t hidden = model.config->hidden_size;
  const auto m = static_cast<int64_t>(rows.rows.size());
  float* x = work.head.reserve(static_cast<size_t>(m * hidden));  // [m, hidden]
  const float* stream = work.x.reserve(0);
  for (int64_t i = 0; i < m; ++i) {
    const int64_t row = rows.rows[static_cast<size_t>(i)] - rows.first;
    std::memcpy(x + i * hidden, stream + row * hidden, static_cast<size_t>(hidden) * sizeof(float));
  }
  float* normed = rows.hidden != nullptr ? rows.hidden : x;
  kernels::rms_norm(ctx, {.x = x,
                          .x_stride = hidden,
                          .weight = model.weights->norm,
                          .eps = static_cast<float>(model.config->rms_norm_eps),
                          .y = normed,
                          .y_stride = hidden,
                          .m = m,
                          .h = hidden});
  if (rows.logits == nullptr) return;
  const kernels::PackedMatrix& lm_head = model.weights->lm_head;
  kernels::linear(ctx, {.w = &lm_head,
                        .x = normed,
                        .x_stride = hidden,
                        .y = rows.logits,
                        .y_stride = lm_head.n,
                        .m = m});
}

}  // namespace fathom
