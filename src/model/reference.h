// Recomputes everything a reference file holds and compares: `fathom verify --reference`, and the
// golden tests.
//
// Tensors of the file (B sequences of S tokens): input_ids [B, S]; logits [B, S, V]; hidden.embed,
// hidden.{layer}, hidden.norm [B, S, H]; router.{layer}.logits [B, S, E], .ids, .weights [B, S, k];
// the same under long. with long.positions [P] for logits; gen.{j}.prompt_ids, .output_ids,
// .logprobs: greedy continuations. `.margin` tensors are informative.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/status.h"
#include "model/model.h"
#include "types/progress.h"

namespace fathom {

enum class CheckOutcome { kPassed, kFailed, kNotChecked };

struct ReferenceCheck {
  std::string name;  // of the reference's tensor, "gen.0" for a whole continuation
  CheckOutcome outcome = CheckOutcome::kPassed;
  double mae = 0;        // mean absolute error; of logprobs for gen.*
  double max_abs = 0;    // relative for router weights
  double tolerance = 0;  // of the mean, or of the maximum where only that counts; 0 = equality
  std::string note;      // what differs, or why it was not checked
};

struct ReferenceReport {
  std::vector<ReferenceCheck> checks;
  int first_bad_layer = -1;  // first layer whose hidden states or router are out of tolerance

  bool passed() const;
};

struct ReferenceOptions {
  int32_t page_size = 16;
  Progress progress;  // checks done, roughly
};

// Tolerances: mean 1e-5 and maximum 1e-4 on logits; the same times max(1, rms) on hidden states and
// router logits; expert ids equal as sets; router weights 1e-5 relative; greedy ids equal;
// logprobs 1e-5. A tensor of the file that is neither known nor listed as "not checked" fails.
// An error is returned only where nothing can be compared (unreadable file, step failed).
Result<ReferenceReport> check_reference(Model& model, const std::filesystem::path& file,
                                        const ReferenceOptions& options = {});

}  // namespace fathom
