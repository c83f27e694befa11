// Checks that the same tokens give the same bits, whatever shares the step, the page or the
// processor.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/checklist.h"
#include "core/status.h"
#include "model/model.h"

namespace fathom::apps {

// One sequence computed once, alone and in the plainest way, and then in other ways. All checks
// compare logits with memcmp. The model must outlive it; used by one thread.
class BitChecks {
 public:
  explicit BitChecks(Model& model) : model_(model) {}

  Result<CheckResult> finite();  // computes the reference; the others need it
  Result<CheckResult> chunked();
  Result<CheckResult> batched();
  Result<CheckResult> other_page_sizes();
  Result<CheckResult> other_threads();
  // In the time that is allowed (seconds, 0 = any): on a large model only the first rows.
  Result<CheckResult> other_isa(kernels::Isa isa, double time_limit);

 private:
  struct Chunking {
    int page_size = 16;
    std::vector<int> chunks;  // lengths, used in turn; empty = prompt whole, then one by one
  };
  Status run_alone(const Chunking& how, int64_t tokens, std::vector<float>* logits);
  CheckResult compare(const std::vector<float>& logits, const std::string& how) const;
  bool wanted(int64_t position) const;  // whether this position's logits are compared

  Model& model_;
  std::vector<int32_t> tokens_;
  std::vector<float> reference_;  // [wanted positions, vocab_size]
  double reference_seconds_ = 0;
};

}  // namespace fathom::apps
