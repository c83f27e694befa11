// How many KV pages an engine gets and how long its context may be.
#pragma once

#include <cstdint>

#include "core/status.h"
#include "engine/engine.h"
#include "types/kv_layout.h"

namespace fathom {

struct MemoryPlan {
  int64_t page_count = 0;
  uint64_t kv_memory_bytes = 0;  // of these pages
  int64_t max_model_len = 0;     // at most what the pages hold for one sequence
};

// `available`: bytes a new allocation may take, now that the weights are loaded. `model_len`: the
// model's max_position_embeddings. With kv_memory_bytes = 0 the cache takes what max_num_seqs
// sequences of full length can use, but at most nine tenths of what is available beyond the
// activations. Refuses, with the numbers, what does not fit.
Result<MemoryPlan> plan_memory(const EngineOptions& options, const KvLayout& layout,
                               int64_t model_len, uint64_t available);

}  // namespace fathom
