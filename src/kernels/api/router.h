// Mixture-of-experts router: gate logits to expert ids and weights.
//
// Scores and selection are fp32; a total order (score descending, then id ascending) decides, so
// ties go to the lowest id. Slots come out in that order.
#pragma once

#include <cstdint>

#include "kernels/api/context.h"

namespace fathom::kernels {

enum class RouterScore : uint8_t { kSoftmax, kSigmoid };
enum class RouterSelect : uint8_t {
  kGreedy,              // top-k of all scores
  kGroupLimitedGreedy,  // V2: best groups by their maximum; other scores become 0
  kNoAuxTc,  // V3: choice = score + bias; groups by the sum of their two best; others -inf
};

struct RouterConfig {
  RouterScore score = RouterScore::kSoftmax;
  RouterSelect select = RouterSelect::kGreedy;
  int32_t experts = 0;
  int32_t top_k = 0;
  int32_t groups = 1;      // n_group; divides experts
  int32_t top_groups = 1;  // topk_group
  bool normalize = false;  // norm_topk_prob: weights / (sum + 1e-20)
  // With normalize, V3 multiplies by routed_scale too; V2 (scale_normalized = false) does not.
  bool scale_normalized = true;
  float routed_scale = 1;  // routed_scaling_factor
};

struct RouterArgs {
  const float* logits = nullptr;  // [m, experts]
  int64_t logits_stride = 0;
  const float* bias = nullptr;  // [experts] e_score_correction_bias (kNoAuxTc), or null for 0
  int32_t* ids = nullptr;       // [m, top_k]
  float* weights = nullptr;     // [m, top_k]: from unbiased scores, as to be applied
  int64_t m = 0;
};
// Requires top_k <= experts of the kept groups (config builders check it).
void route(KernelContext& ctx, const RouterConfig& config, const RouterArgs& args);

}  // namespace fathom::kernels
