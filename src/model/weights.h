// Where the forward pass finds its weights: one struct per block, fields named as in checkpoints.
//
// Everything points into one arena that the Model owns; filled once by load.h, read-only
// afterwards.
#pragma once

#include <cstddef>
#include <vector>

#include "core/dtype.h"
#include "kernels/api/linear.h"
#include "kernels/api/moe.h"

namespace fathom {

struct EmbeddingTable {
  const std::byte* data = nullptr;  // [vocab_size, hidden_size] row-major, as stored
  DType dtype = DType::kBF16;
};

// y = W x (+ bias)
struct Projection {
  kernels::PackedMatrix weight;
  const float* bias = nullptr;
};

struct GqaWeights {
  Projection q_proj;  // [heads * head_dim, hidden]
  Projection k_proj;  // [kv_heads * head_dim, hidden]
  Projection v_proj;  // [kv_heads * head_dim, hidden]
  Projection o_proj;  // [hidden, heads * head_dim]
};

struct MlaWeights {
  kernels::PackedMatrix q_proj;  // [heads * (nope + rope), hidden]; only without q_lora_rank
  Projection q_a_proj;           // [q_lora_rank, hidden]
  const float* q_a_layernorm = nullptr;
  kernels::PackedMatrix q_b_proj;  // [heads * (nope + rope), q_lora_rank]
  Projection kv_a_proj_with_mqa;   // [kv_lora_rank + rope, hidden]
  const float* kv_a_layernorm = nullptr;
  // kv_b_proj [heads * (nope + v), kv_lora_rank], taken apart for absorption.
  std::vector<kernels::PackedMatrix> w_uk_t;  // per head: W_UK^T [kv_lora_rank, nope]
  std::vector<kernels::PackedMatrix> w_uv;    // per head: W_UV [v, kv_lora_rank]
  Projection o_proj;                          // [hidden, heads * v]
};

struct MoeWeights {
  kernels::PackedMatrix gate;                      // [experts, hidden]
  const float* e_score_correction_bias = nullptr;  // [experts], noaux_tc only
  std::vector<kernels::FfnWeights> experts;
  kernels::FfnWeights shared_experts;  // one network of width n_shared_experts * intermediate
};

struct LayerWeights {
  const float* input_layernorm = nullptr;           // [hidden]
  const float* post_attention_layernorm = nullptr;  // [hidden]
  GqaWeights gqa;
  MlaWeights mla;
  kernels::FfnWeights mlp;  // dense layers
  MoeWeights moe;
};

struct ModelWeights {
  EmbeddingTable embed_tokens;
  std::vector<LayerWeights> layers;
  const float* norm = nullptr;    // [hidden]
  kernels::PackedMatrix lm_head;  // [vocab, hidden]; of the embedding when tied
};

}  // namespace fathom
