// FakeModel: a model for engine tests. Its logits are a hash of the sequence's whole history, read
// back through the page tables, so any mistake in paging, chunking or resuming changes them.
#pragma once

#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "engine/step_model.h"

namespace fathom::testing {

class FakeModel : public StepModel {
 public:
  explicit FakeModel(int64_t vocab_size = 64, int64_t max_position_embeddings = 512,
                     int threads = 2)
      : pool_(threads) {
    config_.vocab_size = vocab_size;
    config_.max_position_embeddings = max_position_embeddings;
    layout_.groups.push_back({"history", KvGrowth::kPerToken, 1, 0, sizeof(int64_t)});
  }

  const ModelConfig& config() const override { return config_; }
  const KvLayout& kv_layout() const override { return layout_; }
  uint64_t weight_bytes() const override { return 0; }
  uint64_t fingerprint() const override { return 0x1234; }
  ThreadPool& pool() override { return pool_; }

  Status step(const StepPlan& plan, const std::vector<KvMemory>& kv, float* logits) override {
    wait_at_gate();
    const PageTable& table = plan.page_tables[0];
    const auto entry = [&](int32_t sequence, int32_t position) {
      const int32_t page = table.pages[table.begin[sequence] + position / kv[0].page_size];
      return kv[0].base + page * kv[0].page_stride + (position % kv[0].page_size) * sizeof(int64_t);
    };
    for (int32_t row = 0; row < plan.rows(); ++row) {
      if (plan.tokens[row] == fail_on_token) return Status(Code::kInternal, "The fake failed.");
      const int64_t value = plan.tokens[row];
      std::memcpy(entry(plan.sequences[row], plan.positions[row]), &value, sizeof value);
    }
    for (size_t i = 0; i < plan.logit_rows.size(); ++i) {
      const int32_t row = plan.logit_rows[i];
      uint64_t hash = 1469598103934665603u;
      int64_t last = 0;
      for (int32_t position = 0; position <= plan.positions[row]; ++position) {
        std::memcpy(&last, entry(plan.sequences[row], position), sizeof last);
        hash = (hash ^ static_cast<uint64_t>(last + 1)) * 1099511628211u;
      }
      float* out = logits + static_cast<int64_t>(i) * config_.vocab_size;
      for (int64_t id = 0; id < config_.vocab_size; ++id) {
        uint64_t mixed = (hash + static_cast<uint64_t>(id)) * 0x9E3779B97F4A7C15u;
        mixed ^= mixed >> 29;
        mixed *= 0xBF58476D1CE4E5B9u;
        out[id] = static_cast<float>(mixed >> 40) * 0x1p-22f - 2;  // [-2, 2)
      }
      if (last == nan_on_token) out[3] = std::numeric_limits<float>::quiet_NaN();
    }
    return Status();
  }

  // Steps wait while the gate is closed; open_gate() lets `steps` of them through.
  void close_gate() { open_gate(0); }
  void open_gate(int64_t steps = std::numeric_limits<int64_t>::max()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      allowed_ = steps;
    }
    gate_.notify_all();
  }

  // A step with this token in its rows fails; a row after this token has a NaN. -1 = never.
  int32_t fail_on_token = -1;
  int32_t nan_on_token = -1;

 private:
  void wait_at_gate() {
    std::unique_lock<std::mutex> lock(mutex_);
    gate_.wait(lock, [this] { return allowed_ > 0; });
    --allowed_;
  }

  ModelConfig config_;
  KvLayout layout_;
  ThreadPool pool_;
  std::mutex mutex_;
  std::condition_variable gate_;
  int64_t allowed_ = std::numeric_limits<int64_t>::max();
};

}  // namespace fathom::testing
