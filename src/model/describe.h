// What a config amounts to, without any weights: parameters, tensors, bytes, cache layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "types/kv_layout.h"
#include "types/model_config.h"

namespace fathom {

// Parameters as published counts have them.
//   total: every tensor, MTP layers excluded (V2-Lite 15.7 B, V2 236 B, V3 671 B).
//   active: the matrices that a token's products run through: attention, dense networks, shared and
//     chosen experts, lm_head. Not the embedding, which is looked up, and not norms, biases and the
//     router's gate (V2-Lite 2.4 B, V2 21 B, V3 37 B).
struct ParameterCounts {
  int64_t total = 0;
  int64_t active = 0;
  int64_t mtp = 0;
};
ParameterCounts count_parameters(const ModelConfig& config);

// A tensor that the checkpoint of this config has to hold (or may hold: required is false).
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t parameters = 0;
  bool required = true;
  bool mtp = false;
};
// In checkpoint order; FP8 scales are not listed.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

// Memory of the loaded weights in the types that the config announces.
uint64_t weight_bytes_of(const ModelConfig& config);

// The cache that the model keeps in `kv_dtype` (kF32 or kBF16).
KvLayout kv_layout_of(const ModelConfig& config, DType kv_dtype);

}  // namespace fathom
