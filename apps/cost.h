// What a step must read and compute at least, from the config alone: the ceilings' numerators.
#pragma once

#include <cstdint>
#include <vector>

#include "types/model_config.h"

namespace fathom::apps {

// Elements of the weight matrices of one layer. Norms and biases are left out: they are less than
// 0.1% of any member.
struct LayerElements {
  int64_t attention = 0;           // projections
  int64_t ffn = 0;                 // dense network, or shared experts
  int64_t router = 0;              // gate
  int64_t routed_expert = 0;       // one of them
  int64_t attention_per_pair = 0;  // multiply-adds per query and key that it sees, all heads
};
LayerElements layer_elements(const LayerSpec& layer, int64_t hidden_size);

// Bytes of weights that one step reads: every matrix once, of the routed experts only the distinct
// ones. `experts_touched`: per layer, in order; 0 for dense layers.
uint64_t step_weight_bytes(const ModelConfig& config, const std::vector<double>& experts_touched);

// Floating-point operations (a multiply-add is two) of a prompt of `tokens` tokens whose last
// position's logits are computed: every matrix once a token, attention over all earlier positions.
double prefill_flops(const ModelConfig& config, int64_t tokens);

}  // namespace fathom::apps
