// Checks of the whole engine: generation, repeatability, memory, speed.
#pragma once

#include "apps/checklist.h"
#include "core/status.h"
#include "engine/engine.h"

namespace fathom::apps {

// All use token ids, so that models without a tokenizer can be checked. The engine must outlive it;
// used by one thread.
class EngineChecks {
 public:
  EngineChecks(Engine& engine, double time_limit) : engine_(engine), time_limit_(time_limit) {}

  Result<CheckResult> reaches_max_tokens();
  Result<CheckResult> greedy_repeats();
  Result<CheckResult> sampling_repeats();
  Result<CheckResult> memory_stays();
  Result<CheckResult> speed();

 private:
  struct Answer {
    std::vector<int32_t> ids;
    StreamEvent end;
  };
  Request request(int64_t prompt_tokens, int32_t max_tokens, uint64_t prompt_seed) const;
  Result<std::vector<Answer>> answer(std::vector<Request> requests);
  Status answer_many(int count, int first);

  Engine& engine_;
  double time_limit_;
};

}  // namespace fathom::apps
