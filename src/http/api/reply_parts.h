// Parts that several forms of answers share: token texts, logprobs, usage, stream lines.
#pragma once

#include <xxhash.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/api/json.h"
#include "http/api/reply.h"
#include "text/tokenizer.h"

namespace fathom::api {

// What one token is called in logprobs.
struct TokenNames {
  const Tokenizer* tokenizer = nullptr;  // nullptr: ids only
  bool as_ids = false;                   // "token_id:123"

  // Valid UTF-8; bytes that are no character become U+FFFD.
  std::string text(int32_t id) const;
  // As text(), but bytes that are no character are written "bytes:\xE2\x80", so that different
  // tokens have different names.
  std::string unique(int32_t id) const;
  Json bytes(int32_t id) const;  // array of numbers
};

// -9999 stands for minus infinity, which JSON cannot write.
float finite_logprob(float logprob);

// One element of OpenAI's choices[].logprobs.content.
Json chat_logprob(const TokenNames& names, int32_t id, const TokenLogprobs& logprobs);

Json usage_json(const TokenCounts& counts);

// "stop" and "length".
const char* openai_finish(FinishReason reason);

std::string sse_data(const Json& value);                             // data: ...\n\n
std::string sse_event(const std::string& event, const Json& value);  // event: ...\ndata: ...\n\n
inline constexpr const char* kSseDone = "data: [DONE]\n\n";
inline constexpr const char* kSseType = "text/event-stream";

// The ends of OpenAI's streams: a last chunk with the usage if it is wanted, or an error.
void end_openai_stream(Exchange& exchange, Json envelope, const TokenCounts* usage);
void fail_openai_stream(Exchange& exchange, const ApiError& error);

// A hash of bytes that come in pieces (XXH64).
class ByteHash {
 public:
  ByteHash();
  void add(std::string_view bytes);
  std::string hex() const;

 private:
  struct Free {
    void operator()(XXH64_state_t* state) const { XXH64_freeState(state); }
  };
  std::unique_ptr<XXH64_state_t, Free> state_;
};

// How many tokens the choices have cost so far.
class TokenCounter {
 public:
  // `per_prompt`: so many consecutive choices share a prompt, which counts once.
  TokenCounter(int64_t prompt_tokens, size_t choices, size_t per_prompt)
      : per_prompt_(per_prompt), completion_(choices, 0) {
    counts_.prompt = prompt_tokens;
  }
  void add(size_t choice, const StreamEvent& event, bool reasoning);
  const TokenCounts& counts() const { return counts_; }
  int64_t completion(size_t choice) const { return completion_[choice]; }

 private:
  TokenCounts counts_;
  size_t per_prompt_;
  std::vector<int64_t> completion_;
};

}  // namespace fathom::api
