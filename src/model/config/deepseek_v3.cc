// DeepSeek-V3, R1 and V3.1: latent attention, sigmoid gate with a selection bias, FP8, one MTP
// layer.
#include "model/config/builders.h"
#include "model/config/fields.h"

namespace fathom::config {

void build_deepseek_v3(ConfigReader& reader, ModelConfig& config) {
  read_common(reader, config);
  const AttentionSpec attention = read_mla(reader);
  const FfnSpec dense = read_dense_ffn(reader);
  FfnSpec moe = read_moe_ffn(reader);
  if (moe.kind == FfnKind::kMoe) {
    reader.choice("scoring_func", {"sigmoid"}, 0);
    reader.choice("topk_method", {"noaux_tc"}, 0);
    moe.router.scoring_func = ScoringFunc::kSigmoid;
    moe.router.topk_method = TopkMethod::kNoauxTc;
    read_groups(reader, moe);
    moe.router.routed_scaling_factor = reader.number("routed_scaling_factor", {1e-6, 1e6});
    // Unlike the older gates, this one normalises a single expert too (its weight becomes 1).
    moe.router.norm_topk_prob = reader.flag("norm_topk_prob");
    check_router(reader, moe);
  }
  read_fp8(reader, config);
  read_nextn(reader, config);
  fill_layers(reader, config, attention, dense, moe);
}

}  // namespace fathom::config
