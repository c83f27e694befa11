// Counts bytes and operations per layer.
#include "apps/cost.h"

#include "core/dtype.h"

namespace fathom::apps {
namespace {

int64_t mlp_elements(int64_t hidden, int64_t width) {
  return 3 * hidden * width;
}

void count_attention(const AttentionSpec& a, int64_t hidden, LayerElements& weights) {
  const int64_t heads = a.num_attention_heads;
  if (a.kind == AttentionKind::kGqa) {
    const int64_t q = heads * a.head_dim, kv = int64_t(a.num_key_value_heads) * a.head_dim;
    weights.attention = hidden * (q + 2 * kv) + q * hidden;
    weights.attention_per_pair = 2 * q;  // scores and weighted sum
    return;
  }
  const int64_t q_dim = heads * (a.qk_nope_head_dim + a.qk_rope_head_dim);
  weights.attention =
      a.q_lora_rank > 0 ? int64_t(a.q_lora_rank) * (hidden + q_dim) : hidden * q_dim;
  weights.attention += hidden * (a.kv_lora_rank + a.qk_rope_head_dim);  // kv_a
  weights.attention += int64_t(a.kv_lora_rank) * heads * (a.qk_nope_head_dim + a.v_head_dim);
  weights.attention += heads * a.v_head_dim * hidden;  // o
  // Absorbed: every head works on the latent itself.
  weights.attention_per_pair = heads * (2 * a.kv_lora_rank + a.qk_rope_head_dim);
}

// FP8 checkpoints keep their projections and experts in one byte an element; router, embedding and
// head stay in torch_dtype.
double projection_bytes(const ModelConfig& config) {
  if (!config.fp8.enabled) return static_cast<double>(dtype_size(config.torch_dtype));
  return 1 + 4.0 / (double(config.fp8.block_rows) * config.fp8.block_cols);
}

}  // namespace

LayerElements layer_elements(const LayerSpec& layer, int64_t hidden_size) {
  LayerElements weights;
  count_attention(layer.attention, hidden_size, weights);
  const FfnSpec& ffn = layer.ffn;
  if (ffn.kind == FfnKind::kDense) {
    weights.ffn = mlp_elements(hidden_size, ffn.intermediate_size);
    return weights;
  }
  weights.routed_expert = mlp_elements(hidden_size, ffn.intermediate_size);
  weights.ffn = weights.routed_expert * ffn.n_shared_experts;
  weights.router = hidden_size * ffn.n_routed_experts;
  return weights;
}

uint64_t step_weight_bytes(const ModelConfig& config, const std::vector<double>& experts_touched) {
  const double stored = static_cast<double>(dtype_size(config.torch_dtype));
  const double projection = projection_bytes(config);
  double bytes = double(config.vocab_size) * double(config.hidden_size) * stored;  // head
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const LayerElements weights = layer_elements(config.layers[i], config.hidden_size);
    bytes += projection * double(weights.attention + weights.ffn) + stored * double(weights.router);
    bytes += projection * double(weights.routed_expert) * experts_touched[i];
  }
  return static_cast<uint64_t>(bytes);
}

double prefill_flops(const ModelConfig& config, int64_t tokens) {
  const double count = static_cast<double>(tokens);
  const double pairs = count * (count + 1) / 2;
  double multiply_adds = double(config.vocab_size) * double(config.hidden_size);
  for (const LayerSpec& layer : config.layers) {
    const LayerElements weights = layer_elements(layer, config.hidden_size);
    const double matrices = double(weights.attention + weights.ffn + weights.router) +
                            double(weights.routed_expert) * layer.ffn.num_experts_per_tok;
    multiply_adds += matrices * count + double(weights.attention_per_pair) * pairs;
  }
  return 2 * multiply_adds;
}

}  // namespace fathom::apps
