// Fills the weights of a config: from a checkpoint, strictly, or with random numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/file.h"
#include "core/status.h"
#include "core/thread_pool.h"
#include "model/weights.h"
#include "types/model_config.h"
#include "types/progress.h"
#include "weights/checkpoint.h"

namespace fathom {

// Weights and the one block of memory that they lie in. Not movable: fields are pointed at while
// loading.
struct LoadedWeights {
  ModelWeights weights;
  HugeBuffer arena;
  uint64_t content_hash = 0;  // of names and stored bytes
  uint64_t stored_bytes = 0;  // read from the checkpoint
  LoadedWeights() = default;
  LoadedWeights(const LoadedWeights&) = delete;
  LoadedWeights& operator=(const LoadedWeights&) = delete;
};

struct WeightLoadOptions {
  bool mmap = false;
  Progress progress;
};

// Every missing, unexpected, wrongly shaped or typed tensor is listed in one message before a byte
// of weights is read. kOutOfMemory if the weights would not fit.
Status load_weights(const std::filesystem::path& model_dir, const ModelConfig& config,
                    ThreadPool& pool, const WeightLoadOptions& options, LoadedWeights& out);

// Whether a checkpoint's headers hold exactly the tensors that the config asks for; the same
// message as load_weights gives.
Status check_weights(const Checkpoint& checkpoint, const ModelConfig& config);

// Deterministic random weights in the config's own dtype (FP8 where it is an FP8 config): matrices
// normal with standard deviation 0.02, norm gains 1, biases 0.
Status make_dummy_weights(const ModelConfig& config, ThreadPool& pool, const Progress& progress,
                          LoadedWeights& out);

}  // namespace fathom
