// A loaded model: weights bound to fields, and the forward pass over a StepPlan.
//
// Owns its weights; the KV memory belongs to the caller. One thread at a time may call step(): the
// engine's, or the host's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"
#include "kernels/api/context.h"
#include "types/kv_layout.h"
#include "types/model_config.h"
#include "types/progress.h"
#include "types/step_plan.h"

namespace fathom {

struct ModelOptions {
  int threads = 0;  // 0 = one per available processor; never enters the arithmetic
  kernels::Isa isa = kernels::best_isa();  // all give the same bits
  DType kv_dtype = DType::kF32;            // kF32 or kBF16: the form in which the cache is read
  bool dummy_weights = false;  // --load-format dummy: random weights, only config.json is read
  bool mmap = false;           // read weights through a mapping instead of positioned reads
  std::vector<std::pair<std::string, std::string>> config_overrides;  // key, JSON value
  Progress progress;  // bytes of weights loaded, total
};

// Intermediate values of one step, captured for verification. All float32, row-major.
struct RouterTrace {
  int layer = 0;
  std::vector<float> logits;   // [rows, n_routed_experts]
  std::vector<int32_t> ids;    // [rows, num_experts_per_tok], slot order
  std::vector<float> weights;  // [rows, num_experts_per_tok], as applied
};
struct StepTrace {
  std::vector<float> embed;  // [rows, hidden_size]
  std::vector<std::vector<float>>
      hidden;                        // per layer: residual stream after it, [rows, hidden_size]
  std::vector<float> norm;           // [rows, hidden_size], after the final norm
  std::vector<RouterTrace> routers;  // MoE layers, ascending
};

struct StepOutput {
  float* logits = nullptr;  // [logit_rows, vocab_size]; nullptr = not wanted
  float* hidden = nullptr;  // [logit_rows, hidden_size] after the final norm; nullptr = not wanted
  StepTrace* trace = nullptr;  // nullptr = not wanted
};

class Model {
 public:
  // Loads completely and exactly, or refuses with one message that lists every offending tensor.
  static Result<std::unique_ptr<Model>> load(const std::filesystem::path& model_dir,
                                             const ModelOptions& options);
  ~Model();

  const ModelConfig& config() const;
  const KvLayout& kv_layout() const;
  uint64_t weight_bytes() const;  // memory held by weights
  uint64_t fingerprint() const;   // numeric contract version, weights, backend, dtype choices
  ThreadPool& pool();
  kernels::KernelContext& kernels();

  // Another number of threads (0 = one per processor) or instruction set from the next step on; the
  // bits stay the same, which `fathom verify` shows. Invalidates what pool() and kernels() gave.
  Status set_compute(int threads, kernels::Isa isa);

  // Writes the rows' KV entries, then attends. `kv` has one element per KvLayout group. Checks the
  // plan (token, position and page ranges) and refuses a bad one without touching the cache.
  Status step(const StepPlan& plan, const std::vector<KvMemory>& kv, const StepOutput& out);

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
