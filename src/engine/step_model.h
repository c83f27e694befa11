// StepModel: what the engine needs of a model. The real one is src/model; tests bring their own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/status.h"
#include "core/thread_pool.h"
#include "model/model.h"
#include "types/kv_layout.h"
#include "types/model_config.h"
#include "types/step_plan.h"

namespace fathom {

// Called by the engine's thread only, except for the constant descriptions.
class StepModel {
 public:
  virtual ~StepModel() = default;
  virtual const ModelConfig& config() const = 0;
  virtual const KvLayout& kv_layout() const = 0;
  virtual uint64_t weight_bytes() const = 0;
  virtual uint64_t fingerprint() const = 0;
  virtual ThreadPool& pool() = 0;
  // Writes logits [logit_rows, vocab_size] of the plan's logit rows.
  virtual Status step(const StepPlan& plan, const std::vector<KvMemory>& kv, float* logits) = 0;
};

std::unique_ptr<StepModel> make_step_model(std::unique_ptr<Model> model);

}  // namespace fathom
