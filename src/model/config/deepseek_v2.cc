// DeepSeek-V2, V2-Lite, Coder-V2 and V2.5: latent attention, softmax gate, optionally in groups.
#include "model/config/builders.h"
#include "model/config/fields.h"

namespace fathom::config {

void build_deepseek_v2(ConfigReader& reader, ModelConfig& config) {
  read_common(reader, config);
  const AttentionSpec attention = read_mla(reader);
  const FfnSpec dense = read_dense_ffn(reader);
  FfnSpec moe = read_moe_ffn(reader);
  if (moe.kind == FfnKind::kMoe) {
    reader.choice("scoring_func", {"softmax"}, 0);
    const int method = reader.choice("topk_method", {"greedy", "group_limited_greedy"});
    moe.router.topk_method = method == 0 ? TopkMethod::kGreedy : TopkMethod::kGroupLimitedGreedy;
    read_groups(reader, moe);
    moe.router.routed_scaling_factor = reader.number_or("routed_scaling_factor", 1, {1e-6, 1e6});
    // The published gate normalises instead of scaling, and a single expert it only scales.
    moe.router.norm_topk_prob =
        reader.flag_or("norm_topk_prob", false) && moe.num_experts_per_tok > 1;
    moe.router.scale_after_norm = false;
    check_router(reader, moe);
  }
  read_fp8(reader, config);
  fill_layers(reader, config, attention, dense, moe);
}

}  // namespace fathom::config
