// Runs sequences through a model under any plan: pages scattered over poisoned memory, any
// chunking, any mix of sequences in a step.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "model/model.h"

namespace fathom::testing_util {

// How a run cuts the work up. None of it may show in the logits.
struct RunStyle {
  int32_t page_size = 16;
  bool one_chunk = false;  // every sequence alone and whole
  bool all_rows = true;    // logits of all rows, else of a random half
  uint32_t seed = 0;       // of chunks, mixes and page order
};

// Logits [tokens, vocab_size] of each sequence, those that were asked for; `done` marks them.
struct RunResult {
  std::vector<std::vector<float>> logits;
  std::vector<std::vector<bool>> done;
};

// Memory that no sequence owns holds NaN throughout. Throws std::runtime_error if a step fails.
RunResult run_sequences(Model& model, const std::vector<std::vector<int32_t>>& sequences,
                        const RunStyle& style);

// Random tokens; the same for the same seed.
std::vector<std::vector<int32_t>> random_sequences(const Model& model,
                                                   const std::vector<size_t>& lengths,
                                                   uint32_t seed);

// Where two results differ in a bit, or "" (rows that either lacks are skipped).
std::string first_difference(const RunResult& a, const RunResult& b, int64_t vocab_size);

}  // namespace fathom::testing_util
