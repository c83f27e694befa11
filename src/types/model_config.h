// A validated model description: what the forward pass needs to know, in the words of config.json.
//
// Built by src/model/config/ (one builder per family member), read by everybody, never changed
// afterwards. Per-layer differences are data here (LayerSpec), not branches on a model's name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace fathom {

enum class RopeScaling { kNone, kLinear, kYarn, kLlama3 };

// Rotary embedding of one kind of layer (deepseek-family: angles are position * inv_freq).
struct RopeSpec {
  int dim = 0;           // rotated dimensions per head
  double theta = 10000;  // rope_theta
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  int64_t original_max_position_embeddings = 0;      // yarn, llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  double mscale = 1, mscale_all_dim = 0;             // yarn; these are an absent key's values
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  bool interleaved = false;                          // pairs (2i, 2i+1) instead of (i, i + dim/2)

  bool operator==(const RopeSpec&) const = default;
};

enum class AttentionKind { kGqa, kMla };

struct AttentionSpec {
  AttentionKind kind = AttentionKind::kGqa;
  int num_attention_heads = 0;
  int num_key_value_heads = 0;  // kGqa
  int head_dim = 0;             // kGqa
  int q_lora_rank = 0;          // kMla; 0 = q_proj without a low-rank step
  int kv_lora_rank = 0;
  int qk_nope_head_dim = 0;
  int qk_rope_head_dim = 0;
  int v_head_dim = 0;
  bool qkv_bias = false;     // biases on q, k, v (qwen2; attention_bias)
  bool o_bias = false;       // bias on o_proj (attention_bias)
  double softmax_scale = 0;  // YaRN's mscale_all_dim included
  RopeSpec rope;
};

enum class ScoringFunc { kSoftmax, kSigmoid };
enum class TopkMethod { kGreedy, kGroupLimitedGreedy, kNoauxTc };

struct RouterSpec {
  ScoringFunc scoring_func = ScoringFunc::kSoftmax;
  TopkMethod topk_method = TopkMethod::kGreedy;
  int n_group = 1;
  int topk_group = 1;
  bool norm_topk_prob = false;
  double routed_scaling_factor = 1;
  bool scale_after_norm =
      true;  // V3: normalise, then scale; V2: norm_topk_prob replaces the scaling
};

enum class FfnKind { kDense, kMoe };

struct FfnSpec {
  FfnKind kind = FfnKind::kDense;
  int intermediate_size = 0;  // width of one dense MLP or of one routed expert
  int n_routed_experts = 0;
  int n_shared_experts = 0;  // one fused MLP of width n_shared_experts * intermediate_size
  int num_experts_per_tok = 0;
  RouterSpec router;
};

struct LayerSpec {
  AttentionSpec attention;
  FfnSpec ffn;
};

// quantization_config of FP8 checkpoints; block sizes are rows and columns of one scale.
struct Fp8Spec {
  bool enabled = false;
  int block_rows = 128;
  int block_cols = 128;
  std::string scale_fmt;  // "" or "ue8m0"
};

struct ModelConfig {
  std::string architecture;  // architectures[0]
  std::string model_type;
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  DType torch_dtype = DType::kBF16;  // what dummy weights are made in
  std::vector<LayerSpec> layers;
  int num_nextn_predict_layers = 0;  // MTP layers that the config announces
  Fp8Spec fp8;
  std::vector<int32_t> eos_token_ids;  // config.json's own, before generation_config.json
  int32_t bos_token_id = -1;
  std::vector<std::string> ignored_keys;  // keys of config.json that have no meaning here
  uint64_t source_hash = 0;  // of the JSON that was read, overrides applied; for fingerprints

  int num_hidden_layers() const { return static_cast<int>(layers.size()); }
};

}  // namespace fathom
