// Drives Model::step directly: sequences with KV memory of their own, without engine or scheduler.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/file.h"
#include "core/status.h"
#include "model/model.h"

namespace fathom::apps {

// Rows of one sequence in a step: they follow what the sequence has already.
struct SessionRows {
  int sequence = 0;
  std::span<const int32_t> tokens;
  std::vector<int32_t> logit_offsets;  // which of these tokens' logits are wanted, ascending
};

// Some sequences and their pages. Pages of a sequence are scattered on purpose: page numbers must
// not enter results. Used by one thread; the model must outlive it.
class StepSession {
 public:
  // `capacities`: tokens that each sequence may hold. Refuses what free memory can't hold.
  static Result<StepSession> create(Model& model, int page_size, std::vector<int64_t> capacities);

  // One step. `logits` (may be null) becomes [wanted rows, vocab_size], in the order of `rows`.
  Status step(std::span<const SessionRows> rows, std::vector<float>* logits,
              StepTrace* trace = nullptr);
  // One step of one sequence; logits of the last token only.
  Status step(int sequence, std::span<const int32_t> tokens, std::vector<float>* logits);

  int64_t length(int sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
  void rewind(int sequence) { lengths_[static_cast<size_t>(sequence)] = 0; }

 private:
  StepSession() = default;

  Model* model_ = nullptr;
  int page_size_ = 16;
  std::vector<HugeBuffer> buffers_;          // one per KV group
  std::vector<KvMemory> memory_;             // the same
  std::vector<std::vector<int32_t>> pages_;  // per sequence, in order of position
  std::vector<int64_t> lengths_;             // tokens that each sequence has
  StepPlan plan_;
};

// Token ids that look random and are the same everywhere: in [0, vocab_size).
std::vector<int32_t> pseudo_random_tokens(int64_t count, int64_t vocab_size, uint64_t seed);

}  // namespace fathom::apps
