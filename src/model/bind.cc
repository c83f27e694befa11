// The tensors that a config asks for: published name, shape, and the field each of them fills.
#include "model/bind.h"

#include <fmt/format.h>

#include <utility>

namespace fathom {
namespace {

// Appends slots; one call per kind of tensor.
class SlotList {
 public:
  std::vector<TensorSlot> slots;
  int layer = -1;
  TensorTraffic traffic = TensorTraffic::kEveryToken;

  void matrix(const std::string& module, int64_t n, int64_t k, kernels::PackedMatrix* target,
              bool quantizable = true) {
    target->n = n;
    target->k = k;
    TensorSlot& slot = add(module + ".weight", {n, k}, TensorUse::kMatrix, target);
    slot.quantizable = quantizable;
  }
  void projection(const std::string& module, int64_t n, int64_t k, bool bias, Projection* target) {
    matrix(module, n, k, &target->weight);
    if (bias) vector(module + ".bias", n, TensorUse::kBias, &target->bias);
  }
  void gain(const std::string& module, int64_t n, const float** target) {
    vector(module + ".weight", n, TensorUse::kGain, target);
  }
  void vector(const std::string& name, int64_t n, TensorUse use, const float** target) {
    add(name, {n}, use, target).traffic = TensorTraffic::kNotMultiplied;
  }
  TensorSlot& unused(const std::string& name, std::vector<int64_t> shape, TensorPresence presence) {
    TensorSlot& slot = add(name, std::move(shape), TensorUse::kUnused, std::monostate());
    slot.presence = presence;
    slot.traffic = TensorTraffic::kNotMultiplied;
    return slot;
  }
  TensorSlot& add(const std::string& name, std::vector<int64_t> shape, TensorUse use,
                  TensorTarget target) {
    TensorSlot slot;
    slot.name = name;
    slot.shape = std::move(shape);
    slot.use = use;
    slot.traffic = traffic;
    slot.layer = layer;
    slot.target = target;
    slots.push_back(std::move(slot));
    return slots.back();
  }
};

void list_gqa(SlotList& list, const std::string& p, const AttentionSpec& spec, int64_t hidden,
              GqaWeights& weights) {
  const int64_t q_width = int64_t{spec.num_attention_heads} * spec.head_dim;
  const int64_t kv_width = int64_t{spec.num_key_value_heads} * spec.head_dim;
  list.projection(p + "q_proj", q_width, hidden, spec.qkv_bias, &weights.q_proj);
  list.projection(p + "k_proj", kv_width, hidden, spec.qkv_bias, &weights.k_proj);
  list.projection(p + "v_proj", kv_width, hidden, spec.qkv_bias, &weights.v_proj);
  list.projection(p + "o_proj", hidden, q_width, spec.o_bias, &weights.o_proj);
}

void list_mla(SlotList& list, const std::string& p, const AttentionSpec& spec, int64_t hidden,
              MlaWeights& weights) {
  const int64_t heads = spec.num_attention_heads;
  const int64_t q_width = heads * (spec.qk_nope_head_dim + spec.qk_rope_head_dim);
  if (spec.q_lora_rank > 0) {
    list.projection(p + "q_a_proj", spec.q_lora_rank, hidden, spec.qkv_bias, &weights.q_a_proj);
    list.gain(p + "q_a_layernorm", spec.q_lora_rank, &weights.q_a_layernorm);
    list.matrix(p + "q_b_proj", q_width, spec.q_lora_rank, &weights.q_b_proj);
  } else {
    list.matrix(p + "q_proj", q_width, hidden, &weights.q_proj);
  }
  list.projection(p + "kv_a_proj_with_mqa", spec.kv_lora_rank + spec.qk_rope_head_dim, hidden,
                  spec.qkv_bias, &weights.kv_a_proj_with_mqa);
  list.gain(p + "kv_a_layernorm", spec.kv_lora_rank, &weights.kv_a_layernorm);
  kernels::PackedMatrix uk;
  uk.n = spec.kv_lora_rank;
  uk.k = spec.qk_nope_head_dim;
  kernels::PackedMatrix uv;
  uv.n = spec.v_head_dim;
  uv.k = spec.kv_lora_rank;
  weights.w_uk_t.assign(static_cast<size_t>(heads), uk);
  weights.w_uv.assign(static_cast<size_t>(heads), uv);
  const int64_t kv_b_rows = heads * (spec.qk_nope_head_dim + spec.v_head_dim);
  list.add(p + "kv_b_proj.weight", {kv_b_rows, spec.kv_lora_rank}, TensorUse::kKvB, &weights)
      .quantizable = true;
  list.projection(p + "o_proj", hidden, heads * spec.v_head_dim, spec.o_bias, &weights.o_proj);
}

void list_ffn(SlotList& list, const std::string& p, int64_t hidden, int64_t width,
              kernels::FfnWeights& weights) {
  list.matrix(p + "gate_proj", width, hidden, &weights.gate);
  list.matrix(p + "up_proj", width, hidden, &weights.up);
  list.matrix(p + "down_proj", hidden, width, &weights.down);
}

void list_moe(SlotList& list, const std::string& p, const FfnSpec& spec, int64_t hidden,
              MoeWeights& weights) {
  const int64_t experts = spec.n_routed_experts;
  list.traffic = TensorTraffic::kNotMultiplied;
  list.matrix(p + "gate", experts, hidden, &weights.gate, false);
  if (spec.router.topk_method == TopkMethod::kNoauxTc) {
    list.vector(p + "gate.e_score_correction_bias", experts, TensorUse::kBias,
                &weights.e_score_correction_bias);
  }
  list.traffic = TensorTraffic::kRoutedExpert;
  weights.experts.resize(static_cast<size_t>(experts));
  for (int64_t e = 0; e < experts; ++e) {
    list_ffn(list, fmt::format("{}experts.{}.", p, e), hidden, spec.intermediate_size,
             weights.experts[static_cast<size_t>(e)]);
  }
  list.traffic = TensorTraffic::kEveryToken;
  if (spec.n_shared_experts > 0) {
    list_ffn(list, p + "shared_experts.", hidden,
             int64_t{spec.n_shared_experts} * spec.intermediate_size, weights.shared_experts);
  }
}

void list_layer(SlotList& list, int index, const LayerSpec& spec, int64_t hidden,
                LayerWeights& weights) {
  const std::string p = fmt::format("model.layers.{}.", index);
  list.layer = index;
  list.gain(p + "input_layernorm", hidden, &weights.input_layernorm);
  if (spec.attention.kind == AttentionKind::kMla) {
    list_mla(list, p + "self_attn.", spec.attention, hidden, weights.mla);
  } else {
    list_gqa(list, p + "self_attn.", spec.attention, hidden, weights.gqa);
  }
  // Old exports carry the rotary frequencies, which follow from config.json.
  list.unused(p + "self_attn.rotary_emb.inv_freq", {spec.attention.rope.dim / 2},
              TensorPresence::kOptional);
  list.gain(p + "post_attention_layernorm", hidden, &weights.post_attention_layernorm);
  if (spec.ffn.kind == FfnKind::kMoe) {
    list_moe(list, p + "mlp.", spec.ffn, hidden, weights.moe);
  } else {
    list_ffn(list, p + "mlp.", hidden, spec.ffn.intermediate_size, weights.mlp);
  }
  list.layer = -1;
}

// A multi-token-prediction layer: a decoder layer behind the last one, with its own entrance and
// exit. Its tensors are checked like all others; nothing computes with them yet.
void list_mtp_layer(SlotList& list, int index, const ModelConfig& config) {
  const std::string p = fmt::format("model.layers.{}.", index);
  const int64_t hidden = config.hidden_size;
  const LayerSpec* spec = &config.layers.back();
  for (const LayerSpec& layer : config.layers) {
    if (layer.ffn.kind == FfnKind::kMoe) spec = &layer;
  }
  const size_t begin = list.slots.size();
  LayerWeights unused_fields;
  list_layer(list, index, *spec, hidden, unused_fields);
  for (size_t i = begin; i < list.slots.size(); ++i) {
    TensorSlot& slot = list.slots[i];
    slot.use = TensorUse::kUnused;
    slot.target = std::monostate();
    slot.presence = slot.presence == TensorPresence::kRequired ? TensorPresence::kMtp
                                                               : TensorPresence::kMtpOptional;
  }
  list.layer = index;
  list.unused(p + "enorm.weight", {hidden}, TensorPresence::kMtp);
  list.unused(p + "hnorm.weight", {hidden}, TensorPresence::kMtp);
  list.unused(p + "eh_proj.weight", {hidden, 2 * hidden}, TensorPresence::kMtp);
  list.unused(p + "shared_head.norm.weight", {hidden}, TensorPresence::kMtp);
  list.unused(p + "embed_tokens.weight", {config.vocab_size, hidden}, TensorPresence::kMtpOptional);
  list.unused(p + "shared_head.head.weight", {config.vocab_size, hidden},
              TensorPresence::kMtpOptional);
  list.layer = -1;
}

}  // namespace

int64_t element_count(const TensorSlot& slot) {
  int64_t count = 1;
  for (const int64_t extent : slot.shape) count *= extent;
  return count;
}

std::vector<TensorSlot> list_tensors(const ModelConfig& config, ModelWeights& weights) {
  SlotList list;
  const int64_t hidden = config.hidden_size;
  const int64_t vocab = config.vocab_size;
  list.add("model.embed_tokens.weight", {vocab, hidden}, TensorUse::kEmbedding,
           &weights.embed_tokens)
      .traffic = TensorTraffic::kNotMultiplied;
  weights.layers.resize(config.layers.size());
  for (size_t i = 0; i < config.layers.size(); ++i) {
    list_layer(list, static_cast<int>(i), config.layers[i], hidden, weights.layers[i]);
  }
  list.gain("model.norm", hidden, &weights.norm);
  list.unused("model.rotary_emb.inv_freq", {config.layers[0].attention.rope.dim / 2},
              TensorPresence::kOptional);
  weights.lm_head.n = vocab;
  weights.lm_head.k = hidden;
  if (config.tie_word_embeddings) {
    list.unused("lm_head.weight", {vocab, hidden}, TensorPresence::kOptional);
  } else {
    list.matrix("lm_head", vocab, hidden, &weights.lm_head, false);
  }
  for (int i = 0; i < config.num_nextn_predict_layers; ++i) {
    list_mtp_layer(list, config.num_hidden_layers() + i, config);
  }
  return std::move(list.slots);
}

}  // namespace fathom
