// Stream events to C structures.
#include "capi/event.h"

#include <utility>

namespace fathom::capi {

namespace {

int32_t c_reason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return FATHOM_FINISH_STOP;
    case FinishReason::kLength:
      return FATHOM_FINISH_LENGTH;
    case FinishReason::kCancelled:
      return FATHOM_FINISH_CANCELLED;
    case FinishReason::kError:
      return FATHOM_FINISH_ERROR;
  }
  return FATHOM_FINISH_ERROR;
}

}  // namespace

void OwnedEvent::Logprobs::fill(const std::vector<TokenLogprobs>& entries) {
  for (const TokenLogprobs& entry : entries) {
    chosen.push_back(entry.logprob);
    for (const TokenLogprob& top : entry.top) {
      top_ids.push_back(top.id);
      top_logprobs.push_back(top.logprob);
    }
    top_begin.push_back(top_ids.size());
  }
}

OwnedEvent::OwnedEvent(uint64_t request_number, std::string id, void* request_user,
                       int choice_index)
    : fathom_event{}, id_(std::move(id)) {
  size = sizeof(fathom_event);
  number = request_number;
  request_id = id_.c_str();
  user = request_user;
  choice = choice_index;
}

void OwnedEvent::fill(StreamEvent event) {
  event_ = std::move(event);
  token_ids = event_.token_ids.data();
  token_count = event_.token_ids.size();
  text = event_.text.c_str();
  text_bytes = event_.text.size();
  if (!event_.logprobs.empty()) {
    logprobs_.fill(event_.logprobs);
    logprobs = logprobs_.chosen.data();
    top_begin = logprobs_.top_begin.data();
    top_ids = logprobs_.top_ids.data();
    top_logprobs = logprobs_.top_logprobs.data();
  }
  if (!event_.prompt_logprobs.empty()) {
    prompt_logprobs_.fill(event_.prompt_logprobs);
    prompt_logprobs = prompt_logprobs_.chosen.data();
    prompt_top_begin = prompt_logprobs_.top_begin.data();
    prompt_top_ids = prompt_logprobs_.top_ids.data();
    prompt_top_logprobs = prompt_logprobs_.top_logprobs.data();
    prompt_logprob_count = prompt_logprobs_.chosen.size();
  }
  finished = event_.finished ? 1 : 0;
  finish_reason = event_.finished ? c_reason(event_.finish_reason) : FATHOM_FINISH_NONE;
  stop_string = event_.stop_string.c_str();
  stop_token_id = event_.stop_token_id;
  error_status = static_cast<fathom_status>(event_.error.code());
  error_message = event_.error.message().c_str();
  const Usage& usage = event_.usage;
  prompt_tokens = usage.prompt_tokens;
  completion_tokens = usage.completion_tokens;
  preemptions = usage.preemptions;
  queue_seconds = usage.queue_seconds;
  prefill_seconds = usage.prefill_seconds;
  decode_seconds = usage.decode_seconds;
  seed = usage.seed;
  cached_prompt_tokens = usage.cached_prompt_tokens;
}

}  // namespace fathom::capi
