// The blocks of a decoder layer, as free functions over (rows, spec, weights, activations).
//
// Each adds its result to the residual stream x [rows, hidden]; `normed` [rows, hidden] is its
// input after the norm. All arithmetic is in the kernels, so all blocks have the row property.
#pragma once

#include "model/model.h"
#include "model/step_rows.h"
#include "model/weights.h"
#include "types/model_config.h"

namespace fathom {

// Grouped-query (and multi-head) attention: gqa.cc.
void gqa_attention(StepRows& step, const AttentionSpec& spec, const GqaWeights& weights,
                   const float* normed, float* x);
// Multi-head latent attention in absorbed form: mla.cc.
void mla_attention(StepRows& step, const AttentionSpec& spec, const MlaWeights& weights,
                   const float* normed, float* x);
// Dense SwiGLU network: ffn.cc.
void dense_ffn(StepRows& step, const kernels::FfnWeights& weights, const float* normed, float* x);
// Router, routed experts and shared experts: moe.cc. `trace` may be null.
void moe_ffn(StepRows& step, const FfnSpec& spec, const MoeWeights& weights, const float* normed,
             float* x, RouterTrace* trace);

// Elements of one token's cache entry in a layer.
int64_t kv_entry_width(const AttentionSpec& spec);

}  // namespace fathom
