// Mixture-of-experts keys, and which layers have one.
#include <fmt/format.h>

#include "model/config/fields.h"

namespace fathom::config {

FfnSpec read_moe_ffn(ConfigReader& reader) {
  FfnSpec ffn;
  if (!reader.has("n_routed_experts")) {
    reader.ignore({"moe_intermediate_size", "n_shared_experts", "num_experts_per_tok", "n_group",
                   "topk_group", "norm_topk_prob", "routed_scaling_factor", "topk_method",
                   "scoring_func", "first_k_dense_replace", "moe_layer_freq"});
    return ffn;
  }
  ffn.kind = FfnKind::kMoe;
  ffn.n_routed_experts = static_cast<int>(reader.integer("n_routed_experts", {1, kMaxExperts}));
  ffn.n_shared_experts = static_cast<int>(reader.integer_or("n_shared_experts", 0, {0, 1024}));
  ffn.num_experts_per_tok =
      static_cast<int>(reader.integer("num_experts_per_tok", {1, kMaxExperts}));
  ffn.intermediate_size = static_cast<int>(reader.integer("moe_intermediate_size", {1, kMaxWidth}));
  if (int64_t{ffn.intermediate_size} * ffn.n_shared_experts > kMaxWidth) {
    reader.problem(fmt::format("n_shared_experts {} times moe_intermediate_size {} is more than {}",
                               ffn.n_shared_experts, ffn.intermediate_size, kMaxWidth));
  }
  if (ffn.num_experts_per_tok > ffn.n_routed_experts) {
    reader.problem(fmt::format("num_experts_per_tok {} is more than n_routed_experts {}",
                               ffn.num_experts_per_tok, ffn.n_routed_experts));
  }
  return ffn;
}

void read_groups(ConfigReader& reader, FfnSpec& ffn) {
  if (ffn.kind != FfnKind::kMoe) return;
  if (ffn.router.topk_method == TopkMethod::kGreedy) {
    reader.ignore({"n_group", "topk_group"});  // V2-Lite carries 1 and 1; greedy has no groups
    return;
  }
  ffn.router.n_group = static_cast<int>(reader.integer("n_group", {1, kMaxExperts}));
  ffn.router.topk_group = static_cast<int>(reader.integer("topk_group", {1, kMaxExperts}));
}

void check_router(ConfigReader& reader, const FfnSpec& ffn) {
  if (ffn.kind != FfnKind::kMoe || !reader.ok()) return;
  const RouterSpec& router = ffn.router;
  if (ffn.n_routed_experts % router.n_group != 0) {
    reader.problem(fmt::format("n_routed_experts {} is not a multiple of n_group {}",
                               ffn.n_routed_experts, router.n_group));
    return;
  }
  if (router.topk_group > router.n_group) {
    reader.problem(
        fmt::format("topk_group {} is more than n_group {}", router.topk_group, router.n_group));
    return;
  }
  const int left = ffn.n_routed_experts / router.n_group * router.topk_group;
  if (ffn.num_experts_per_tok > left) {
    reader.problem(fmt::format(
        "num_experts_per_tok {} is more than the {} experts of topk_group {} "
        "groups (n_routed_experts {}, n_group {})",
        ffn.num_experts_per_tok, left, router.topk_group, ffn.n_routed_experts, router.n_group));
  }
}

void fill_layers(ConfigReader& reader, ModelConfig& config, const AttentionSpec& attention,
                 const FfnSpec& dense, const FfnSpec& moe) {
  const int64_t layers = reader.integer("num_hidden_layers", {1, kMaxLayers});
  int64_t first_moe = layers;
  int64_t freq = 1;
  if (moe.kind == FfnKind::kMoe) {
    first_moe = reader.integer_or("first_k_dense_replace", 0, {0, kMaxLayers});
    freq = reader.integer_or("moe_layer_freq", 1, {1, kMaxLayers});
    if ((layers + config.num_nextn_predict_layers) * moe.n_routed_experts > kMaxLayerExperts) {
      reader.problem(fmt::format("num_hidden_layers {} times n_routed_experts {} is more than {}",
                                 layers, moe.n_routed_experts, kMaxLayerExperts));
    }
  }
  if (!reader.ok()) return;
  config.layers.reserve(static_cast<size_t>(layers));
  for (int64_t i = 0; i < layers; ++i) {
    const bool has_experts = i >= first_moe && i % freq == 0;
    config.layers.push_back({attention, has_experts ? moe : dense});
  }
}

}  // namespace fathom::config
