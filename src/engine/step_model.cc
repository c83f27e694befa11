// The real model behind the engine's interface.
#include "engine/step_model.h"

#include <utility>

namespace fathom {

namespace {

class LoadedModel : public StepModel {
 public:
  explicit LoadedModel(std::unique_ptr<Model> model) : model_(std::move(model)) {}
  const ModelConfig& config() const override { return model_->config(); }
  const KvLayout& kv_layout() const override { return model_->kv_layout(); }
  uint64_t weight_bytes() const override { return model_->weight_bytes(); }
  uint64_t fingerprint() const override { return model_->fingerprint(); }
  ThreadPool& pool() override { return model_->pool(); }
  Status step(const StepPlan& plan, const std::vector<KvMemory>& kv, float* logits) override {
    StepOutput out;
    out.logits = logits;
    return model_->step(plan, kv, out);
  }

 private:
  std::unique_ptr<Model> model_;
};

}  // namespace

std::unique_ptr<StepModel> make_step_model(std::unique_ptr<Model> model) {
  return std::make_unique<LoadedModel>(std::move(model));
}

}  // namespace fathom
