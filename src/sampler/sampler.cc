// Logits to a token.
#include "sampler/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampler/fixed_math.h"
#include "sampler/logprobs.h"
#include "sampler/philox.h"

namespace fathom {

namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// The largest logit of the allowed ids, lowest id on ties; -1 if all are masked.
int32_t greedy(const float* row, const std::vector<IdRange>& allowed) {
  int32_t best = -1;
  float largest = kMasked;
  for (const IdRange& range : allowed) {
    for (int32_t id = range.begin; id < range.end; ++id) {
      if (row[id] > largest) {
        largest = row[id];
        best = id;
      }
    }
  }
  return best;
}

// Candidates in descending order of logit, lowest id first on ties: a total order, so selections
// do not depend on the algorithm that makes them.
struct Better {
  const float* row;
  bool operator()(int32_t a, int32_t b) const { return row[a] != row[b] ? row[a] > row[b] : a < b; }
};

// Puts the best candidates first, in order, until their weights reach `wanted`; drops the rest.
// Sorts in growing pieces, because a nucleus is usually a few ids out of a hundred thousand.
template <typename Weight>
void keep_nucleus(std::vector<int32_t>* ids, Better better, double wanted, Weight weight) {
  double sum = 0;
  size_t sorted = 0;
  for (size_t piece = 64; sorted < ids->size(); piece *= 8) {
    const size_t end = std::min(ids->size(), sorted + piece);
    const auto first = ids->begin() + static_cast<ptrdiff_t>(sorted);
    const auto last = ids->begin() + static_cast<ptrdiff_t>(end);
    std::nth_element(first, last - 1, ids->end(), better);
    std::sort(first, last, better);
    for (; sorted < end; ++sorted) {
      sum += weight((*ids)[sorted]);
      if (sum >= wanted) {
        ids->resize(sorted + 1);
        return;
      }
    }
  }
}

}  // namespace

Sampler::Sampler(const SamplingParams& params, uint64_t seed, const SamplerVocabulary& vocabulary,
                 const std::vector<int32_t>& prompt, Masks masks)
    : params_(params),
      seed_(seed),
      vocabulary_(&vocabulary),
      masks_(std::move(masks)),
      penalties_(params.repetition_penalty != 1 || params.presence_penalty != 0 ||
                 params.frequency_penalty != 0) {
  if (params_.repetition_penalty == 1) return;
  for (const int32_t id : prompt) seen_[id].in_prompt = true;
}

Status Sampler::accept(int32_t id) {
  ++chosen_;
  if (penalties_) ++seen_[id].count;
  return masks_.structure != nullptr ? masks_.structure->accept(id) : Status();
}

// A finished structure leaves nothing but end of sequence, which min_tokens would mask.
bool Sampler::waits_for_min_tokens() const {
  return chosen_ < params_.min_tokens &&
         (masks_.structure == nullptr || !masks_.structure->finished());
}

bool Sampler::plain() const {
  return params_.logit_bias.empty() && !penalties_ && masks_.never.empty() &&
         !waits_for_min_tokens() && (masks_.structure == nullptr || !masks_.structure->active());
}

// Writes the row that decides: bias, penalties, masks.
void Sampler::adjust(const float* logits, SamplerScratch* scratch) const {
  std::vector<float>& row = scratch->row;
  row.assign(logits, logits + vocabulary_->row_width);
  for (const auto& [id, bias] : params_.logit_bias) row[id] += bias;
  const float repetition = static_cast<float>(params_.repetition_penalty);
  const float frequency = static_cast<float>(params_.frequency_penalty);
  const float presence = static_cast<float>(params_.presence_penalty);
  for (const auto& [id, seen] : seen_) {
    float logit = row[id];
    if (repetition != 1) logit = logit > 0 ? logit / repetition : logit * repetition;
    if (seen.count > 0) {
      logit -= frequency * static_cast<float>(seen.count);
      logit -= presence;
    }
    row[id] = std::min(logit, std::numeric_limits<float>::max());
  }
  for (const int32_t id : masks_.never) row[id] = kMasked;
  if (waits_for_min_tokens()) {
    for (const int32_t id : masks_.until_min_tokens) row[id] = kMasked;
  }
  if (masks_.structure != nullptr && masks_.structure->active()) mask_structure(scratch);
}

void Sampler::mask_structure(SamplerScratch* scratch) const {
  const size_t width = static_cast<size_t>(vocabulary_->row_width);
  scratch->allowed.resize((width + 31) / 32);
  masks_.structure->allowed(&scratch->allowed);
  for (size_t id = 0; id < width; ++id) {
    if ((scratch->allowed[id / 32] >> (id % 32) & 1) == 0) scratch->row[id] = kMasked;
  }
}

Result<SampledToken> Sampler::sample(const float* logits, int64_t position,
                                     SamplerScratch* scratch) const {
  FATHOM_TRY(check_finite(logits, vocabulary_->row_width));
  SampledToken token;
  if (params_.temperature == 0 && plain()) {
    token.id = greedy(logits, vocabulary_->allowed);
  } else {
    adjust(logits, scratch);
    token.id = params_.temperature == 0 ? greedy(scratch->row.data(), vocabulary_->allowed)
                                        : draw(position, scratch);
  }
  if (token.id < 0) {
    return error(Code::kInvalidArgument,
                 "Every token is masked: logit_bias, min_tokens, ignore_eos or the structure that "
                 "the answer "
                 "must have leave none to choose.");
  }
  if (params_.logprobs >= 0) {
    token.logprobs =
        token_logprobs(logits, *vocabulary_, token.id, params_.logprobs, &scratch->ids);
  }
  return token;
}

// Draws from the adjusted row; -1 if every id is masked.
int32_t Sampler::draw(int64_t position, SamplerScratch* scratch) const {
  const float* row = scratch->row.data();
  const int32_t best = greedy(row, vocabulary_->allowed);
  if (best < 0) return -1;
  std::vector<int32_t>& ids = scratch->ids;
  ids.clear();
  for (const IdRange& range : vocabulary_->allowed) {
    for (int32_t id = range.begin; id < range.end; ++id) {
      if (row[id] != kMasked) ids.push_back(id);
    }
  }
  const Better better{row};
  if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < ids.size()) {
    std::nth_element(ids.begin(), ids.begin() + (params_.top_k - 1), ids.end(), better);
    ids.resize(params_.top_k);
    std::sort(ids.begin(), ids.end());  // sums run in ascending id order
  }

  std::vector<double>& weights = scratch->weights;  // [row_width], only candidates are written
  weights.resize(vocabulary_->row_width);
  const double largest = row[best];
  double total = 0;
  size_t kept = 0;
  for (const int32_t id : ids) {
    const double weight = fixed_exp((double{row[id]} - largest) / params_.temperature);
    if (weight < params_.min_p) continue;  // the best has weight 1
    weights[id] = weight;
    total += weight;
    ids[kept++] = id;
  }
  ids.resize(kept);
  const auto weight_of = [&](int32_t id) { return weights[id]; };
  if (params_.top_p < 1) {
    keep_nucleus(&ids, better, params_.top_p * total, weight_of);
    total = 0;
    for (const int32_t id : ids) total += weights[id];
  }

  const double target = uniform_draw(seed_, position, 0) * total;
  double sum = 0;
  for (const int32_t id : ids) {
    sum += weights[id];
    if (target < sum) return id;
  }
  return ids.back();  // rounding: target came out as total
}

}  // namespace fathom
