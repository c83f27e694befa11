// Log-softmax of a raw row of logits.
#include "sampler/logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sampler/fixed_math.h"

namespace fathom {

TokenLogprobs token_logprobs(const float* logits, const SamplerVocabulary& vocabulary,
                             int32_t chosen, int32_t n, std::vector<int32_t>* scratch) {
  const int32_t width = vocabulary.row_width;
  const double largest = *std::max_element(logits, logits + width);
  double sum = 0;
  for (int32_t id = 0; id < width; ++id) sum += fixed_exp(double{logits[id]} - largest);
  const double log_sum = fixed_log(sum);
  const auto logprob = [&](int32_t id) {
    return static_cast<float>((double{logits[id]} - largest) - log_sum);
  };

  TokenLogprobs result;
  result.logprob = logprob(chosen);
  if (n <= 0) return result;
  std::vector<int32_t>& ids = *scratch;
  ids.clear();
  for (const IdRange& range : vocabulary.allowed) {
    for (int32_t id = range.begin; id < range.end; ++id) ids.push_back(id);
  }
  const auto better = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const size_t kept = std::min(ids.size(), static_cast<size_t>(n));
  std::partial_sort(ids.begin(), ids.begin() + kept, ids.end(), better);
  result.top.reserve(kept);
  for (size_t i = 0; i < kept; ++i) result.top.push_back({ids[i], logprob(ids[i])});
  return result;
}

Result<TokenLogprobs> score_token(const float* logits, const SamplerVocabulary& vocabulary,
                                  int32_t token, int32_t n, std::vector<int32_t>* scratch) {
  FATHOM_TRY(check_finite(logits, vocabulary.row_width));
  return token_logprobs(logits, vocabulary, token, n, scratch);
}

Status check_finite(const float* logits, int32_t width) {
  for (int32_t id = 0; id < width; ++id) {
    if (!std::isfinite(logits[id])) {
      return Status(Code::kInternal,
                    fmt::format("The model's logit of token {} is {}; the weights or the cache "
                                "hold a value that is not finite.",
                                id, logits[id]));
    }
  }
  return Status();
}

}  // namespace fathom
