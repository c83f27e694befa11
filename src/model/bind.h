// The tensors that a config asks for: published name, shape, and the field each of them fills.
//
// The one list behind loading, dummy weights and `fathom inspect`.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "model/weights.h"
#include "types/model_config.h"

namespace fathom {

// What is done with a tensor's values.
enum class TensorUse {
  kMatrix,     // packed for products
  kEmbedding,  // kept row-major
  kGain,       // float32 norm weight
  kBias,       // float32
  kKvB,        // kv_b_proj: split per head and packed
  kUnused,     // known by name and checked, but nothing here computes with it
};

// When a tensor has to be in the checkpoint.
enum class TensorPresence {
  kRequired,
  kOptional,
  kMtp,          // all of an MTP layer's tensors, or none
  kMtpOptional,  // duplicates that an MTP layer may carry
};

// How often a token meets the parameters of a tensor.
enum class TensorTraffic {
  kEveryToken,     // products of every token
  kRoutedExpert,   // num_experts_per_tok of n_routed_experts
  kNotMultiplied,  // embedding look-up, norms, biases, gates
};

using TensorTarget = std::variant<std::monostate, kernels::PackedMatrix*, const float**,
                                  EmbeddingTable*, MlaWeights*>;

struct TensorSlot {
  std::string name;
  std::vector<int64_t> shape;
  TensorUse use = TensorUse::kMatrix;
  TensorPresence presence = TensorPresence::kRequired;
  TensorTraffic traffic = TensorTraffic::kEveryToken;
  bool quantizable = false;  // FP8 checkpoints may store it as F8_E4M3 with block scales
  int layer = -1;            // -1: none
  TensorTarget target;
};

// All tensors of the config in checkpoint order. Sizes the vectors of `weights` and sets n and k of
// its matrices; the targets point into it, so it must stay where it is. A checkpoint may hold these
// names and no others.
std::vector<TensorSlot> list_tensors(const ModelConfig& config, ModelWeights& weights);

// Product of the shape.
int64_t element_count(const TensorSlot& slot);

}  // namespace fathom
