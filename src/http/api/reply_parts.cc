// Token texts, logprobs, usage, stream lines.
#include "http/api/reply_parts.h"

#include <fmt/format.h>

#include <cmath>

#include "text/utf8.h"

namespace fathom::api {

std::string TokenNames::text(int32_t id) const {
  if (as_ids || tokenizer == nullptr) return fmt::format("token_id:{}", id);
  return tokenizer->decode({id}, false);
}

std::string TokenNames::unique(int32_t id) const {
  if (as_ids || tokenizer == nullptr) return text(id);
  const std::string_view bytes = tokenizer->token_bytes(id);
  std::string decoded = text(id);
  if (decoded.find("\xEF\xBF\xBD") == std::string::npos || decoded == bytes) return decoded;
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

Json TokenNames::bytes(int32_t id) const {
  Json out = Json::array();
  if (tokenizer == nullptr) return out;
  for (const char c : tokenizer->token_bytes(id)) out.push_back(static_cast<unsigned char>(c));
  return out;
}

float finite_logprob(float logprob) {
  return std::isfinite(logprob) ? logprob : -9999.0f;
}

Json chat_logprob(const TokenNames& names, int32_t id, const TokenLogprobs& logprobs) {
  Json top = Json::array();
  for (const TokenLogprob& other : logprobs.top) {
    top.push_back({{"token", names.text(other.id)},
                   {"logprob", finite_logprob(other.logprob)},
                   {"bytes", names.bytes(other.id)}});
  }
  return {{"token", names.text(id)},
          {"logprob", finite_logprob(logprobs.logprob)},
          {"bytes", names.bytes(id)},
          {"top_logprobs", std::move(top)}};
}

Json usage_json(const TokenCounts& counts) {
  return {{"prompt_tokens", counts.prompt},
          {"completion_tokens", counts.completion},
          {"total_tokens", counts.prompt + counts.completion},
          {"prompt_tokens_details", {{"cached_tokens", counts.cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", counts.reasoning}}}};
}

const char* openai_finish(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

std::string sse_data(const Json& value) {
  return "data: " + dump(value) + "\n\n";
}

std::string sse_event(const std::string& event, const Json& value) {
  return "event: " + event + "\n" + sse_data(value);
}

void end_openai_stream(Exchange& exchange, Json envelope, const TokenCounts* usage) {
  if (usage != nullptr) {
    envelope["choices"] = Json::array();
    envelope["usage"] = usage_json(*usage);
    exchange.send(sse_data(envelope));
  }
  exchange.send(kSseDone);
  exchange.end_stream();
}

void fail_openai_stream(Exchange& exchange, const ApiError& error) {
  exchange.send(sse_data(error_body(error, Dialect::kOpenAi)));
  exchange.send(kSseDone);
  exchange.end_stream();
}

ByteHash::ByteHash() : state_(XXH64_createState()) {
  if (state_) XXH64_reset(state_.get(), 0);
}

void ByteHash::add(std::string_view bytes) {
  if (state_) XXH64_update(state_.get(), bytes.data(), bytes.size());
}

std::string ByteHash::hex() const {
  return fmt::format("{:016x}", state_ ? XXH64_digest(state_.get()) : 0);
}

void TokenCounter::add(size_t choice, const StreamEvent& event, bool reasoning) {
  const auto tokens = static_cast<int64_t>(event.token_ids.size());
  counts_.completion += tokens;
  completion_[choice] += tokens;
  if (reasoning) counts_.reasoning += tokens;
  if (event.finished && choice % per_prompt_ == 0) {
    counts_.cached += event.usage.cached_prompt_tokens;
  }
}

}  // namespace fathom::api
