// Log-probabilities that are reported with a chosen token.
#pragma once

#include <cstdint>
#include <vector>

namespace fathom {

struct TokenLogprob {
  int32_t id = 0;
  float logprob =
      0;  // natural logarithm, of the model's raw distribution over its whole vocabulary
};

struct TokenLogprobs {
  float logprob = 0;              // of the token that was chosen
  std::vector<TokenLogprob> top;  // the n best, descending; ties: lowest id first
};

}  // namespace fathom
