// What a config amounts to, without any weights: parameters, tensors, bytes, cache layout.
#include "model/describe.h"

#include "model/bind.h"
#include "model/blocks.h"
#include "model/placement.h"

namespace fathom {
namespace {

bool is_mtp(const TensorSlot& slot) {
  return slot.presence == TensorPresence::kMtp || slot.presence == TensorPresence::kMtpOptional;
}

}  // namespace

ParameterCounts count_parameters(const ModelConfig& config) {
  ModelWeights unused;
  ParameterCounts counts;
  for (const TensorSlot& slot : list_tensors(config, unused)) {
    const int64_t elements = element_count(slot);
    if (slot.presence == TensorPresence::kMtp) counts.mtp += elements;
    if (slot.presence != TensorPresence::kRequired) continue;
    counts.total += elements;
    if (slot.traffic == TensorTraffic::kEveryToken) counts.active += elements;
  }
  // All experts of a layer are alike: gate, up and down of the chosen ones.
  for (const LayerSpec& layer : config.layers) {
    counts.active += 3 * config.hidden_size * layer.ffn.intermediate_size *
                     (layer.ffn.kind == FfnKind::kMoe ? layer.ffn.num_experts_per_tok : 0);
  }
  // A tied head multiplies every token although it is no tensor of its own.
  if (config.tie_word_embeddings) counts.active += config.vocab_size * config.hidden_size;
  return counts;
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  ModelWeights unused;
  std::vector<ExpectedTensor> tensors;
  for (TensorSlot& slot : list_tensors(config, unused)) {
    ExpectedTensor tensor;
    tensor.parameters = element_count(slot);
    tensor.required = slot.presence == TensorPresence::kRequired;
    tensor.mtp = is_mtp(slot);
    tensor.name = std::move(slot.name);
    tensor.shape = std::move(slot.shape);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

uint64_t weight_bytes_of(const ModelConfig& config) {
  ModelWeights weights;
  const std::vector<TensorSlot> slots = list_tensors(config, weights);
  // The config's ranges keep every size far from overflow, the only way this can fail.
  return placed_bytes(config, announced_tensors(config, slots), weights).value_or(0);
}

KvLayout kv_layout_of(const ModelConfig& config, DType kv_dtype) {
  KvGroup group;
  group.name = config.layers[0].attention.kind == AttentionKind::kMla ? "latent" : "kv";
  for (const LayerSpec& layer : config.layers) {
    group.bytes_per_entry +=
        static_cast<size_t>(kv_entry_width(layer.attention)) * dtype_size(kv_dtype);
  }
  return {{group}};
}

}  // namespace fathom
