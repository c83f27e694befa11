// TokenStream: the events of one request, from the engine's thread to one reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "types/token_logprobs.h"

namespace fathom {

enum class FinishReason {
  kStop,       // end of sequence, a stop token or a stop string
  kLength,     // max_tokens or the context length
  kCancelled,  // by the caller, or the engine was closed
  kError,      // see StreamEvent::error
};
const char* finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled", "error"

// What a request cost. Seconds; queue + prefill + decode = submit to the last token.
struct Usage {
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;     // the token that stopped the request included
  int32_t cached_prompt_tokens = 0;  // of the prompt, not computed but found in the prefix cache
  int32_t preemptions = 0;           // times its pages were taken away and computed again
  double queue_seconds = 0;          // submit to the first step that worked on it
  double prefill_seconds = 0;        // from there to the first token
  double decode_seconds = 0;         // from there to the last token
  uint64_t seed = 0;                 // the one that was used, also when the request gave none
};

struct StreamEvent {
  std::vector<int32_t> token_ids;       // new tokens, in order
  std::string text;                     // text that became certain; valid UTF-8, may be empty
  std::vector<TokenLogprobs> logprobs;  // one per token if asked for
  // First event only, if Request::prompt_logprobs asked for them: [prompt tokens], of each token
  // given those before it. The first token has none: entry 0 is 0 and without `top`.
  std::vector<TokenLogprobs> prompt_logprobs;

  bool finished = false;  // the terminal event: nothing follows. It may carry tokens and text.
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_string;     // the stop string that was found, if one was
  int32_t stop_token_id = -1;  // the stop token that was chosen, if one was
  Status error;                // with kError: what happened
  Usage usage;                 // terminal event only
};

// A bounded channel. One thread writes (the engine's), one thread reads; both ends and cancelled()
// may be used at the same time. Exactly one terminal event arrives for every accepted request.
class TokenStream {
 public:
  // `capacity`: events that may wait for the reader. `on_event` (may be empty) is called by the
  // writer after each push, outside any lock; it must be quick and must not throw.
  TokenStream(std::string request_id, size_t capacity, std::function<void()> on_event = {});
  ~TokenStream();
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  const std::string& request_id() const;

  // Reader: the next event. nullopt when the time is over (negative: wait as long as it takes), or
  // at once when the terminal event was read before.
  std::optional<StreamEvent> next(double timeout_seconds = -1);

  // Writer: false when `capacity` events wait already (`event` is left as it was then). The
  // terminal event is always taken; a second one, or anything after it, is dropped and gives false.
  bool push(StreamEvent&& event);
  bool finished() const;  // the terminal event was pushed

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
