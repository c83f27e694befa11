// Tokens of one request to events: text, stops, usage.
#include "engine/live_request.h"

#include <algorithm>
#include <utility>

namespace fathom {

namespace {

Sampler::Masks masks_for(const Submission& submission, const std::vector<int32_t>& stop_ids) {
  const SamplingParams& params = submission.sampling;
  Sampler::Masks masks;
  masks.structure = submission.token_mask;
  if (params.ignore_eos) masks.never = stop_ids;
  if (params.min_tokens > 0) {
    masks.until_min_tokens = stop_ids;
    masks.until_min_tokens.insert(masks.until_min_tokens.end(), params.stop_token_ids.begin(),
                                  params.stop_token_ids.end());
  }
  return masks;
}

}  // namespace

LiveRequest::LiveRequest(const Submission& submission, SequenceId id, const Shared& shared)
    : id_(id),
      shared_(&shared),
      params_(submission.sampling),
      stream_(submission.stream),
      sampler_(params_, params_.seed.value_or(0), shared.vocabulary, submission.prompt,
               masks_for(submission, shared.stop_ids)),
      stop_matcher_(params_.stop, params_.include_stop),
      wanted_prompt_logprobs_(submission.prompt_logprobs),
      submit_time_(submission.submit_time),
      deadline_(submission.deadline) {
  if (shared.tokenizer != nullptr) {
    detokenizer_.emplace(*shared.tokenizer, params_.skip_special_tokens);
  }
  usage_.prompt_tokens = static_cast<int32_t>(submission.prompt.size());
  usage_.seed = params_.seed.value_or(0);
  if (wanted_prompt_logprobs_ >= 0) prompt_logprobs_.emplace_back();  // of the first token: none
}

void LiveRequest::on_admitted(int64_t cached) {
  if (first_step_time_ < 0) usage_.cached_prompt_tokens = static_cast<int32_t>(cached);
}

void LiveRequest::on_scheduled(double now) {
  if (first_step_time_ < 0) first_step_time_ = now;
}

bool LiveRequest::is_stop_id(int32_t id) const {
  const bool end_of_sequence =
      std::binary_search(shared_->stop_ids.begin(), shared_->stop_ids.end(), id);
  if (end_of_sequence && !params_.ignore_eos) return true;
  return std::find(params_.stop_token_ids.begin(), params_.stop_token_ids.end(), id) !=
         params_.stop_token_ids.end();
}

// Text passes the stop strings, except before min_tokens.
void LiveRequest::append_text(const std::string& text, StreamEvent* event) {
  if (usage_.completion_tokens < params_.min_tokens) {
    event->text += text;
  } else {
    event->text += stop_matcher_.push(text).emit;
  }
}

void LiveRequest::flush_text(StreamEvent* event) {
  if (!detokenizer_) return;
  if (!stop_matcher_.stopped()) append_text(detokenizer_->finish(), event);
  event->text += stop_matcher_.finish();
}

void LiveRequest::add_prompt_logprobs(TokenLogprobs entry) {
  prompt_logprobs_.push_back(std::move(entry));
}

StreamEvent LiveRequest::finish_scoring(double now) {
  first_token_time_ = now;
  last_token_time_ = now;
  StreamEvent event;
  event.prompt_logprobs = std::move(prompt_logprobs_);
  event.finish_reason = FinishReason::kLength;
  return terminal(std::move(event), now);
}

std::optional<StreamEvent> LiveRequest::take(const SampledToken& token, double now) {
  const Status accepted = sampler_.accept(token.id);
  ++usage_.completion_tokens;
  if (first_token_time_ < 0) first_token_time_ = now;
  last_token_time_ = now;

  StreamEvent event;
  event.token_ids.push_back(token.id);
  if (usage_.completion_tokens == 1) event.prompt_logprobs = std::move(prompt_logprobs_);
  if (token.logprobs) event.logprobs.push_back(*token.logprobs);
  const bool stopped_by_id = is_stop_id(token.id);
  if (stopped_by_id) event.stop_token_id = token.id;
  if (detokenizer_ && (!stopped_by_id || params_.include_stop)) {
    append_text(detokenizer_->push(token.id), &event);
  }
  if (!accepted.ok()) {
    flush_text(&event);
    event.finish_reason = FinishReason::kError;
    event.error = accepted;
    return terminal(std::move(event), now);
  }
  const bool last = usage_.completion_tokens >= params_.max_tokens;
  if (stopped_by_id || stop_matcher_.stopped() || last) {
    flush_text(&event);
    const bool stopped = stopped_by_id || stop_matcher_.stopped();
    event.finish_reason = stopped ? FinishReason::kStop : FinishReason::kLength;
    return terminal(std::move(event), now);
  }
  if (stream_->push(std::move(event))) return std::nullopt;
  flush_text(&event);
  event.finish_reason = FinishReason::kError;
  event.error = Status(Code::kUnavailable,
                       "The reader fell too far behind: as many events wait as the stream may hold "
                       "(stream_capacity).");
  return terminal(std::move(event), now);
}

StreamEvent LiveRequest::finish(FinishReason reason, Status error, double now) {
  StreamEvent event;
  flush_text(&event);
  event.finish_reason = reason;
  event.error = std::move(error);
  return terminal(std::move(event), now);
}

StreamEvent LiveRequest::terminal(StreamEvent event, double now) {
  event.finished = true;
  event.stop_string = stop_matcher_.matched_stop();
  const double started = first_step_time_ < 0 ? now : first_step_time_;
  usage_.queue_seconds = started - submit_time_;
  if (first_token_time_ >= 0) {
    usage_.prefill_seconds = first_token_time_ - started;
    usage_.decode_seconds = last_token_time_ - first_token_time_;
  }
  event.usage = usage_;
  return event;
}

}  // namespace fathom
