// How a request wants its tokens chosen and when it wants to stop. Plain data; validated once at
// submit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fathom {

struct SamplingParams {
  double temperature = 1.0;                           // 0 = greedy
  double top_p = 1.0;                                 // (0, 1]
  int32_t top_k = 0;                                  // 0 or -1 = all
  double min_p = 0.0;                                 // [0, 1]
  double repetition_penalty = 1.0;                    // > 0; over prompt and output
  double presence_penalty = 0.0;                      // [-2, 2]; over output
  double frequency_penalty = 0.0;                     // [-2, 2]; over output
  std::optional<uint64_t> seed;                       // absent: the engine draws one and reports it
  std::vector<std::pair<int32_t, float>> logit_bias;  // added to raw logits
  int32_t max_tokens = -1;                            // -1 = up to the context length
  int32_t min_tokens = 0;                             // stops are ignored before that many
  std::vector<std::string> stop;                      // text; never emitted
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop = false;  // keep the stop string in the text
  bool skip_special_tokens = true;
  int32_t logprobs = -1;  // -1 = none; n = chosen token and the n best
};

}  // namespace fathom
