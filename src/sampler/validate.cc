// Checks of sampling parameters: each refusal names the parameter, the value and the range.
#include <fmt/format.h>

#include <cmath>

#include "sampler/sampler.h"

namespace fathom {

namespace {

Status outside(const char* name, double value, const char* range) {
  return Status(Code::kInvalidArgument,
                fmt::format("{} is {}; it must be {}.", name, value, range));
}

Status check_ids(const SamplingParams& params, int32_t row_width) {
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= row_width) {
      return Status(Code::kInvalidArgument,
                    fmt::format("logit_bias names token {}; the model's ids are 0 to {}.", id,
                                row_width - 1));
    }
    if (!std::isfinite(bias) || std::fabs(bias) > 1e6f) {
      return outside(fmt::format("logit_bias of token {}", id).c_str(), bias,
                     "between -1e6 and 1e6");
    }
  }
  for (const int32_t id : params.stop_token_ids) {
    if (id < 0 || id >= row_width) {
      return Status(Code::kInvalidArgument,
                    fmt::format("stop_token_ids names token {}; the model's ids are 0 to {}.", id,
                                row_width - 1));
    }
  }
  return Status();
}

}  // namespace

Status validate_sampling(const SamplingParams& params, int32_t row_width, bool scores_prompt) {
  // Each comparison is written so that NaN fails it.
  if (!(params.temperature >= 0 && params.temperature <= 1000)) {
    return outside("temperature", params.temperature, "between 0 and 1000");
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return outside("top_p", params.top_p, "above 0 and at most 1");
  }
  if (params.top_k < -1) return outside("top_k", params.top_k, "at least 1, or 0 or -1 for all");
  if (!(params.min_p >= 0 && params.min_p <= 1)) {
    return outside("min_p", params.min_p, "between 0 and 1");
  }
  if (!(params.repetition_penalty >= 1e-3 && params.repetition_penalty <= 1e3)) {
    return outside("repetition_penalty", params.repetition_penalty, "between 0.001 and 1000");
  }
  if (!(params.presence_penalty >= -2 && params.presence_penalty <= 2)) {
    return outside("presence_penalty", params.presence_penalty, "between -2 and 2");
  }
  if (!(params.frequency_penalty >= -2 && params.frequency_penalty <= 2)) {
    return outside("frequency_penalty", params.frequency_penalty, "between -2 and 2");
  }
  if (params.max_tokens < -1 || (params.max_tokens == 0 && !scores_prompt)) {
    return outside("max_tokens", params.max_tokens,
                   "at least 1, or -1 for the rest of the context; 0 only with prompt_logprobs");
  }
  if (params.min_tokens < 0) return outside("min_tokens", params.min_tokens, "at least 0");
  if (params.max_tokens >= 0 && params.min_tokens > params.max_tokens) {
    return outside("min_tokens", params.min_tokens,
                   fmt::format("at most max_tokens ({})", params.max_tokens).c_str());
  }
  if (params.logprobs < -1 || params.logprobs > row_width) {
    return outside("logprobs", params.logprobs,
                   fmt::format("between 0 and {}, or -1 for none", row_width).c_str());
  }
  return check_ids(params, row_width);
}

}  // namespace fathom
