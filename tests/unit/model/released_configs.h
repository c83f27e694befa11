// config.json of released models, the keys that matter (from their Hugging Face repositories).
#pragma once

#include "model/config/config.h"

namespace fathom::released {

constexpr const char* kV2Lite = R"({
  "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
  "attention_bias": false, "attention_dropout": 0.0, "aux_loss_alpha": 0.001,
  "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV2Config"},
  "bos_token_id": 100000, "eos_token_id": 100001, "first_k_dense_replace": 1,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
  "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 64,
  "n_shared_experts": 2, "norm_topk_prob": false, "num_attention_heads": 16,
  "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
  "pretraining_tp": 1, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "rms_norm_eps": 1e-06,
  "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707,
    "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096, "type": "yarn"},
  "rope_theta": 10000, "routed_scaling_factor": 1.0, "scoring_func": "softmax", "seq_aux": true,
  "tie_word_embeddings": false, "topk_group": 1, "topk_method": "greedy",
  "torch_dtype": "bfloat16", "transformers_version": "4.33.1", "use_cache": true,
  "v_head_dim": 128, "vocab_size": 102400})";

constexpr const char* kV2 = R"({
  "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
  "attention_bias": false, "bos_token_id": 100000, "eos_token_id": 100001, "ep_size": 1,
  "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 5120,
  "intermediate_size": 12288, "kv_lora_rank": 512, "max_position_embeddings": 163840,
  "moe_intermediate_size": 1536, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 160,
  "n_shared_experts": 2, "norm_topk_prob": false, "num_attention_heads": 128,
  "num_experts_per_tok": 6, "num_hidden_layers": 60, "num_key_value_heads": 128,
  "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
  "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707,
    "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096, "type": "yarn"},
  "rope_theta": 10000, "routed_scaling_factor": 16.0, "scoring_func": "softmax",
  "tie_word_embeddings": false, "topk_group": 3, "topk_method": "group_limited_greedy",
  "torch_dtype": "bfloat16", "v_head_dim": 128, "vocab_size": 102400})";

constexpr const char* kV3 = R"({
  "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
  "attention_bias": false, "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1,
  "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
  "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
  "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
  "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128,
  "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
  "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64,
  "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
    "weight_block_size": [128, 128]},
  "rms_norm_eps": 1e-06,
  "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
    "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
  "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
  "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc",
  "torch_dtype": "bfloat16", "transformers_version": "4.33.1", "use_cache": true,
  "v_head_dim": 128, "vocab_size": 129280})";

constexpr const char* kMoe16B = R"({
  "architectures": ["DeepseekForCausalLM"], "model_type": "deepseek", "attention_bias": false,
  "bos_token_id": 100000, "eos_token_id": 100001, "first_k_dense_replace": 1,
  "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 10944,
  "max_position_embeddings": 4096, "moe_intermediate_size": 1408, "moe_layer_freq": 1,
  "n_routed_experts": 64, "n_shared_experts": 2, "norm_topk_prob": false,
  "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 28,
  "num_key_value_heads": 16, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000,
  "scoring_func": "softmax", "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "vocab_size": 102400})";

constexpr const char* kCoder1_3B = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "bos_token_id": 32013,
  "eos_token_id": 32014, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 5504,
  "max_position_embeddings": 16384, "num_attention_heads": 16, "num_hidden_layers": 24,
  "num_key_value_heads": 16, "pretraining_tp": 1, "rms_norm_eps": 1e-06,
  "rope_scaling": {"factor": 4.0, "type": "linear"}, "rope_theta": 100000,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32256})";

constexpr const char* kDistillQwen1_5B = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 1536,
  "intermediate_size": 8960, "max_position_embeddings": 131072, "max_window_layers": 21,
  "num_attention_heads": 12, "num_hidden_layers": 28, "num_key_value_heads": 2,
  "rms_norm_eps": 1e-06, "rope_theta": 10000, "sliding_window": 4096,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_mrope": false,
  "use_sliding_window": false, "vocab_size": 151936})";

constexpr const char* kDistillLlama70B = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false,
  "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 8192, "intermediate_size": 28672,
  "max_position_embeddings": 131072, "mlp_bias": false, "num_attention_heads": 64,
  "num_hidden_layers": 80, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "vocab_size": 128256})";

}  // namespace fathom::released
