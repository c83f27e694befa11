// Log-softmax of a raw row of logits, for the tokens that are reported.
#pragma once

#include <cstdint>
#include <vector>

#include "sampler/sampler.h"

namespace fathom {

// log p of `chosen` and of the `n` best of the allowed ids, over the whole row: float32 logits,
// double sums in ascending id order.
TokenLogprobs token_logprobs(const float* logits, const SamplerVocabulary& vocabulary,
                             int32_t chosen, int32_t n, std::vector<int32_t>* scratch);
// The same for a row that no sampler has seen, of a prompt token: an error if a logit is not
// finite.
Result<TokenLogprobs> score_token(const float* logits, const SamplerVocabulary& vocabulary,
                                  int32_t token, int32_t n, std::vector<int32_t>* scratch);
// An error that names the first logit of a row that is not finite.
Status check_finite(const float* logits, int32_t width);

}  // namespace fathom
