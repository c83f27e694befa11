// Groups of config.json keys that several family members share. Private to src/model/config.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "model/config/reader.h"
#include "types/model_config.h"

namespace fathom::config {

// Upper limits that no model comes near; they keep products of two sizes far inside int64 and
// lists of tensors inside memory.
constexpr int64_t kMaxWidth = int64_t{1} << 20;  // hidden_size, intermediate_size, heads * dim
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxExperts = 4096;
constexpr int64_t kMaxLayerExperts = int64_t{1} << 17;  // routed experts of all layers together

// Which values of rope_scaling.type a member's published code knows.
enum RopeKinds : unsigned {
  kRopeNone = 0,
  kRopeLinear = 1,
  kRopeYarn = 2,
  kRopeLlama3 = 4,
};

// vocab_size, hidden_size, norms, embeddings, tokens, dtype; and the names of training keys.
void read_common(ConfigReader& reader, ModelConfig& config);
// rope_theta with rope_scaling, or transformers 5's rope_parameters.
RopeSpec read_rope(ConfigReader& reader, int dim, unsigned kinds);
// Multi-head and grouped-query attention of llama, qwen2 and deepseek.
AttentionSpec read_gqa(ConfigReader& reader, const ModelConfig& config, unsigned rope_kinds);
// Multi-head latent attention of deepseek_v2 and deepseek_v3.
AttentionSpec read_mla(ConfigReader& reader);
FfnSpec read_dense_ffn(ConfigReader& reader);

// The mixture of experts of `deepseek` and later. n_routed_experts null or absent: kind stays
// kDense. The router's method is the member's own; read it before check_router.
FfnSpec read_moe_ffn(ConfigReader& reader);
void read_groups(ConfigReader& reader, FfnSpec& ffn);
void check_router(ConfigReader& reader, const FfnSpec& ffn);
// Layers in order: dense below first_k_dense_replace and where moe_layer_freq says so.
void fill_layers(ConfigReader& reader, ModelConfig& config, const AttentionSpec& attention,
                 const FfnSpec& dense, const FfnSpec& moe);
// quantization_config of FP8 checkpoints.
void read_fp8(ConfigReader& reader, ModelConfig& config);
void refuse_quantization(ConfigReader& reader);
// num_nextn_predict_layers, 0 if absent.
void read_nextn(ConfigReader& reader, ModelConfig& config);

}  // namespace fathom::config
