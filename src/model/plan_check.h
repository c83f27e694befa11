// Refuses step plans that would read or write outside the cache or the vocabulary.
#pragma once

#include <vector>

#include "core/status.h"
#include "types/kv_layout.h"
#include "types/model_config.h"
#include "types/step_plan.h"

namespace fathom {

// Linear in rows and pages; touches no cache memory. The message names the row or the group.
Status check_plan(const ModelConfig& config, const KvLayout& layout, const StepPlan& plan,
                  const std::vector<KvMemory>& kv);

}  // namespace fathom
