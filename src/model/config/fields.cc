// Groups of config.json keys that several family members share: sizes, attention, dense layers.
#include "model/config/fields.h"

#include <fmt/format.h>

#include <cmath>

#include "model/rope.h"

namespace fathom::config {
namespace {

void read_dtype(ConfigReader& reader, ModelConfig& config) {
  const char* key = reader.has("dtype") ? "dtype" : "torch_dtype";
  reader.ignore({"torch_dtype", "dtype"});
  const int index = reader.choice(key, {"bfloat16", "float16", "float32"}, 0);
  config.torch_dtype = index == 0 ? DType::kBF16 : index == 1 ? DType::kF16 : DType::kF32;
}

}  // namespace

void read_common(ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer("vocab_size", {1, int64_t{1} << 24});
  config.hidden_size = reader.integer("hidden_size", {1, kMaxWidth});
  // Rotary angles are float32, so positions must be exact there.
  config.max_position_embeddings =
      reader.integer("max_position_embeddings", {1, (int64_t{1} << 24) - 1});
  config.rms_norm_eps = reader.number("rms_norm_eps", {0, 1});
  config.tie_word_embeddings = reader.flag_or("tie_word_embeddings", false);
  config.eos_token_ids = reader.token_ids("eos_token_id");
  const std::vector<int32_t> bos = reader.token_ids("bos_token_id");
  config.bos_token_id = bos.empty() ? -1 : bos[0];
  read_dtype(reader, config);
  reader.choice("hidden_act", {"silu"}, 0);
  // Training, generation defaults, other programs' bookkeeping.
  reader.ignore({"architectures",
                 "model_type",
                 "auto_map",
                 "_name_or_path",
                 "transformers_version",
                 "use_cache",
                 "initializer_range",
                 "attention_dropout",
                 "hidden_dropout",
                 "pad_token_id",
                 "sep_token_id",
                 "decoder_start_token_id",
                 "aux_loss_alpha",
                 "seq_aux",
                 "pretraining_tp",
                 "ep_size",
                 "output_router_logits",
                 "router_aux_loss_coef",
                 "output_attentions",
                 "output_hidden_states",
                 "return_dict",
                 "chunk_size_feed_forward",
                 "id2label",
                 "label2id",
                 "problem_type",
                 "is_encoder_decoder",
                 "add_cross_attention",
                 "_attn_implementation_autoset"});
}

AttentionSpec read_gqa(ConfigReader& reader, const ModelConfig& config, unsigned rope_kinds) {
  AttentionSpec spec;
  spec.kind = AttentionKind::kGqa;
  const int64_t heads = reader.integer("num_attention_heads", {1, kMaxHeads});
  const int64_t kv_heads = reader.integer_or("num_key_value_heads", heads, {1, kMaxHeads});
  const bool head_dim_given = reader.has("head_dim");
  const int64_t head_dim =
      reader.integer_or("head_dim", std::max<int64_t>(config.hidden_size / heads, 2), {2, 8192});
  spec.num_attention_heads = static_cast<int>(heads);
  spec.num_key_value_heads = static_cast<int>(kv_heads);
  spec.head_dim = static_cast<int>(head_dim);
  spec.softmax_scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  spec.rope = read_rope(reader, spec.head_dim, rope_kinds);
  if (!reader.ok()) return spec;  // the sizes below may be stand-ins
  if (!head_dim_given && config.hidden_size != heads * head_dim) {
    reader.problem(fmt::format("hidden_size {} is not num_attention_heads {} times a head width",
                               config.hidden_size, heads));
  }
  if (heads % kv_heads != 0) {
    reader.problem(fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}",
                               heads, kv_heads));
  }
  if (head_dim % 2 != 0) {
    reader.problem(
        fmt::format("the head width {} is odd, so that it cannot be rotated in pairs", head_dim));
  }
  if (heads * head_dim > kMaxWidth) {
    reader.problem(fmt::format("num_attention_heads {} times head_dim {} is more than {}", heads,
                               head_dim, kMaxWidth));
  }
  return spec;
}

AttentionSpec read_mla(ConfigReader& reader) {
  AttentionSpec spec;
  spec.kind = AttentionKind::kMla;
  spec.num_attention_heads =
      static_cast<int>(reader.integer("num_attention_heads", {1, kMaxHeads}));
  spec.q_lora_rank = static_cast<int>(reader.integer_or("q_lora_rank", 0, {1, kMaxWidth}));
  spec.kv_lora_rank = static_cast<int>(reader.integer("kv_lora_rank", {1, 65536}));
  spec.qk_nope_head_dim = static_cast<int>(reader.integer("qk_nope_head_dim", {1, 8192}));
  spec.qk_rope_head_dim = static_cast<int>(reader.integer("qk_rope_head_dim", {2, 8192}));
  spec.v_head_dim = static_cast<int>(reader.integer("v_head_dim", {1, 8192}));
  spec.qkv_bias = spec.o_bias = reader.flag_or("attention_bias", false);
  // transformers derives these from the keys above; MLA has one key head whatever they say.
  reader.ignore({"num_key_value_heads", "head_dim", "qk_head_dim"});
  spec.rope = read_rope(reader, spec.qk_rope_head_dim, kRopeLinear | kRopeYarn);
  spec.rope.interleaved = reader.flag_or("rope_interleave", true);
  // The width before absorption counts, never kv_lora_rank + qk_rope_head_dim.
  spec.softmax_scale =
      1.0 / std::sqrt(static_cast<double>(spec.qk_nope_head_dim + spec.qk_rope_head_dim));
  if (spec.rope.scaling == RopeScaling::kYarn && spec.rope.mscale_all_dim != 0) {
    const double g = yarn_mscale(spec.rope.factor, spec.rope.mscale_all_dim);
    spec.softmax_scale *= g * g;
  }
  if (!reader.ok()) return spec;  // the sizes below may be stand-ins
  if (spec.qk_rope_head_dim % 2 != 0) {
    reader.problem(fmt::format("qk_rope_head_dim {} is odd", spec.qk_rope_head_dim));
  }
  const int64_t widest =
      std::max(spec.kv_lora_rank + spec.qk_rope_head_dim,
               spec.qk_nope_head_dim + std::max(spec.qk_rope_head_dim, spec.v_head_dim));
  if (spec.num_attention_heads * widest > kMaxWidth) {
    reader.problem(fmt::format("num_attention_heads {} times a head's width {} is more than {}",
                               spec.num_attention_heads, widest, kMaxWidth));
  }
  return spec;
}

FfnSpec read_dense_ffn(ConfigReader& reader) {
  FfnSpec ffn;
  ffn.kind = FfnKind::kDense;
  ffn.intermediate_size = static_cast<int>(reader.integer("intermediate_size", {1, kMaxWidth}));
  return ffn;
}

void refuse_quantization(ConfigReader& reader) {
  const nlohmann::json* value = reader.find("quantization_config");
  if (value != nullptr) {
    reader.problem(
        fmt::format("quantization_config is {}, but this architecture is read unquantized only",
                    shown(*value)));
  }
}

void read_fp8(ConfigReader& reader, ModelConfig& config) {
  const nlohmann::json* value = reader.object("quantization_config");
  if (value == nullptr) return;
  ConfigReader quant(*value, "quantization_config.", reader.findings());
  config.fp8.enabled = true;
  quant.choice("quant_method", {"fp8"});
  quant.choice("fmt", {"e4m3"}, 0);
  quant.choice("activation_scheme", {"dynamic"}, 0);
  quant.require_default("weight_block_size", nlohmann::json::array({128, 128}),
                        "that is the family's block");
  if (!quant.has("weight_block_size")) {
    quant.problem("quantization_config.weight_block_size is missing; it must be [128,128]");
  }
  if (quant.choice("scale_fmt", {"float", "ue8m0"}, 0) == 1) config.fp8.scale_fmt = "ue8m0";
  // transformers' bookkeeping; which tensors are FP8 is read from the checkpoint itself.
  quant.ignore({"modules_to_not_convert", "ignored_layers", "dequantize"});
  quant.ignore_unknown_keys();
}

void read_nextn(ConfigReader& reader, ModelConfig& config) {
  config.num_nextn_predict_layers =
      static_cast<int>(reader.integer_or("num_nextn_predict_layers", 0, {0, 16}));
}

}  // namespace fathom::config
