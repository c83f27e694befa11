// Sampler: a row of logits to a token, as a pure function of the row, the request and the position.
//
// Order of operations: logit_bias; repetition, then frequency and presence penalty; masks of ids,
// the token mask of structured output among them; temperature; top-k; min-p; top-p (over what top-k
// and min-p left); one Philox draw keyed by (seed, position). Sums run in a fixed order and exp is
// our own, so the token is the same on every machine that has the same logits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/status.h"
#include "types/sampling_params.h"
#include "types/token_logprobs.h"
#include "types/token_mask.h"

namespace fathom {

// Ids [begin, end).
struct IdRange {
  int32_t begin = 0;
  int32_t end = 0;
};

// What all requests of a model have in common.
struct SamplerVocabulary {
  int32_t row_width = 0;         // logits of a row
  std::vector<IdRange> allowed;  // ids that have a token, ascending; others are never chosen
};

// Ranges and ids. `row_width`: see SamplerVocabulary. `scores_prompt`: max_tokens may be 0.
Status validate_sampling(const SamplingParams& params, int32_t row_width,
                         bool scores_prompt = false);

struct SampledToken {
  int32_t id = -1;
  std::optional<TokenLogprobs> logprobs;  // if SamplingParams::logprobs >= 0
};

// Memory that sampling a row needs; one per thread, reused.
struct SamplerScratch {
  std::vector<float> row;         // [row_width] after bias, penalties and masks
  std::vector<uint32_t> allowed;  // [(row_width + 31) / 32] of a token mask
  std::vector<int32_t> ids;       // candidates
  std::vector<double> weights;    // of the candidates
};

// The sampling state of one request. Used by one thread at a time; different samplers may run in
// parallel, each with a scratch of its own.
class Sampler {
 public:
  struct Masks {
    std::vector<int32_t> never;             // ids that are not wanted (ignore_eos: end of sequence)
    std::vector<int32_t> until_min_tokens;  // ids masked until min_tokens were chosen
    std::shared_ptr<TokenMask> structure;   // nullptr = none
  };
  // `params` must be valid; `vocabulary` must outlive the sampler. `prompt` counts for the
  // repetition penalty.
  Sampler(const SamplingParams& params, uint64_t seed, const SamplerVocabulary& vocabulary,
          const std::vector<int32_t>& prompt, Masks masks);

  // The token at `position` (tokens before it). Greedy (temperature 0): the largest logit, lowest
  // id on ties. An error if a logit is not finite or no id is left. Changes nothing: accept() does.
  Result<SampledToken> sample(const float* logits, int64_t position, SamplerScratch* scratch) const;
  Status accept(int32_t id);  // the token was taken; an error is the token mask's

 private:
  struct Seen {
    bool in_prompt = false;
    int32_t count = 0;  // in the answer
  };
  bool plain() const;  // the raw row decides
  bool waits_for_min_tokens() const;
  void mask_structure(SamplerScratch* scratch) const;
  void adjust(const float* logits, SamplerScratch* scratch) const;
  int32_t draw(int64_t position, SamplerScratch* scratch) const;

  SamplingParams params_;
  uint64_t seed_;
  const SamplerVocabulary* vocabulary_;
  Masks masks_;
  bool penalties_;
  int32_t chosen_ = 0;                      // tokens accepted
  std::unordered_map<int32_t, Seen> seen_;  // filled only if there are penalties
};

}  // namespace fathom
