// Mixture of experts: gate logits, choice of experts, routed and shared networks.
#include "kernels/api/moe.h"

#include "kernels/api/router.h"
#include "model/blocks.h"

namespace fathom {
namespace {

kernels::RouterConfig router_config(const FfnSpec& spec) {
  kernels::RouterConfig config;
  config.score = spec.router.scoring_func == ScoringFunc::kSigmoid ? kernels::RouterScore::kSigmoid
                                                                   : kernels::RouterScore::kSoftmax;
  switch (spec.router.topk_method) {
    case TopkMethod::kGreedy:
      config.select = kernels::RouterSelect::kGreedy;
      break;
    case TopkMethod::kGroupLimitedGreedy:
      config.select = kernels::RouterSelect::kGroupLimitedGreedy;
      break;
    case TopkMethod::kNoauxTc:
      config.select = kernels::RouterSelect::kNoAuxTc;
      break;
  }
  config.experts = spec.n_routed_experts;
  config.top_k = spec.num_experts_per_tok;
  config.groups = spec.router.n_group;
  config.top_groups = spec.router.topk_group;
  config.normalize = spec.router.norm_topk_prob;
  config.scale_normalized = spec.router.scale_after_norm;
  config.routed_scale = static_cast<float>(spec.router.routed_scaling_factor);
  return config;
}

}  // namespace

void moe_ffn(StepRows& step, const FfnSpec& spec, const MoeWeights& weights, const float* normed,
             float* x, RouterTrace* trace) {
  const int64_t m = step.rows;
  const int64_t hidden = weights.gate.k;
  const int64_t experts = spec.n_routed_experts;
  const int64_t slots = spec.num_experts_per_tok;
  const auto logits_size = static_cast<size_t>(m * experts);
  const auto slots_size = static_cast<size_t>(m * slots);
  float* logits = step.work.logits.reserve(logits_size);        // [m, experts]
  float* slot_weights = step.work.weights.reserve(slots_size);  // [m, slots]
  std::vector<int32_t>& ids = step.work.ids;                    // [m, slots]
  ids.resize(slots_size);

  kernels::linear(step.ctx, {.w = &weights.gate,
                             .x = normed,
                             .x_stride = hidden,
                             .y = logits,
                             .y_stride = experts,
                             .m = m});
  kernels::route(step.ctx, router_config(spec),
                 {.logits = logits,
                  .logits_stride = experts,
                  .bias = weights.e_score_correction_bias,
                  .ids = ids.data(),
                  .weights = slot_weights,
                  .m = m});
  kernels::moe(step.ctx, {.experts = weights.experts,
                          .shared = spec.n_shared_experts > 0 ? &weights.shared_experts : nullptr,
                          .x = normed,
                          .x_stride = hidden,
                          .ids = ids.data(),
                          .weights = slot_weights,
                          .slots = slots,
                          .y = x,
                          .y_stride = hidden,
                          .residual = x,
                          .residual_stride = hidden,
                          .m = m});
  if (trace == nullptr) return;
  trace->logits.insert(trace->logits.end(), logits, logits + logits_size);
  trace->ids.insert(trace->ids.end(), ids.begin(), ids.end());
  trace->weights.insert(trace->weights.end(), slot_weights, slot_weights + slots_size);
}

}  // namespace fathom
