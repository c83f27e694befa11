// DeepSeekMoE-16B (model_type "deepseek"): multi-head attention with a softmax mixture of experts.
#include "model/config/builders.h"
#include "model/config/fields.h"

namespace fathom::config {

void build_deepseek(ConfigReader& reader, ModelConfig& config) {
  read_common(reader, config);
  AttentionSpec attention = read_gqa(reader, config, kRopeLinear);
  attention.qkv_bias = attention.o_bias = reader.flag_or("attention_bias", false);
  const FfnSpec dense = read_dense_ffn(reader);
  FfnSpec moe = read_moe_ffn(reader);
  if (moe.kind == FfnKind::kMoe) {
    reader.choice("scoring_func", {"softmax"}, 0);
    reader.choice("topk_method", {"greedy"}, 0);
    read_groups(reader, moe);
    // The published gate normalises only where there is something to normalise, and never scales.
    moe.router.norm_topk_prob =
        reader.flag_or("norm_topk_prob", false) && moe.num_experts_per_tok > 1;
    reader.require_default("routed_scaling_factor", 1.0, "this architecture's gate does not scale");
    check_router(reader, moe);
  }
  refuse_quantization(reader);
  fill_layers(reader, config, attention, dense, moe);
}

}  // namespace fathom::config
