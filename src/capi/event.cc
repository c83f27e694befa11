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

OwnedEvent::OwnedEvent(uint64_t request_number, std::string id, void* request_user)
    : fathom_event{}, id_(std::move(id)) {
  size = sizeof(fathom_event);
  number = request_number;
  request_id = id_.c_str();
  user = request_user;
}

void OwnedEvent::fill(StreamEvent event) {
  event_ = std::move(event);
  token_ids = event_.token_ids.data();
  token_count = event_.token_ids.size();
  text = event_.text.c_str();
  text_bytes = event_.text.size();
  if (!event_.logprobs.empty()) {
    top_begin_.push_back(0);
    for (const TokenLogprobs& entry : event_.logprobs) {
      logprobs_.push_back(entry.logprob);
      for (const TokenLogprob& top : entry.top) {
        top_ids_.push_back(top.id);
        top_logprobs_.push_back(top.logprob);
      }
      top_begin_.push_back(top_ids_.size());
    }
    logprobs = logprobs_.data();
    top_begin = top_begin_.data();
    top_ids = top_ids_.data();
    top_logprobs = top_logprobs_.data();
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
}

}  // namespace fathom::capi
