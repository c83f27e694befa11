// LiveRequest: an accepted request from submit to its terminal event.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sampler/sampler.h"
#include "scheduler/scheduler.h"
#include "stream/detokenizer.h"
#include "stream/stop_matcher.h"
#include "stream/token_stream.h"
#include "types/sampling_params.h"

namespace fathom {

// What submit() hands to the engine's thread; checked, with every default filled in.
struct Submission {
  std::vector<int32_t> prompt;
  SamplingParams sampling;  // max_tokens and seed are set
  int priority = 0;
  std::string cache_salt;
  int32_t prompt_logprobs = -1;
  std::shared_ptr<TokenMask> token_mask;
  int choice = -1;         // of n > 1: its index; the submissions of all choices follow one another
  double submit_time = 0;  // now_seconds()
  double deadline = std::numeric_limits<double>::infinity();  // the same clock
  std::shared_ptr<TokenStream> stream;
};

// Turns chosen tokens into events and decides when the request is over. Owned and used by the
// engine's thread, but for sampler(), which one worker at a time may read.
class LiveRequest {
 public:
  // What all requests of an engine share; must outlive the request.
  struct Shared {
    const Tokenizer* tokenizer = nullptr;  // nullptr: ids only
    std::vector<int32_t> stop_ids;         // end of sequence, ascending
    SamplerVocabulary vocabulary;
  };
  LiveRequest(const Submission& submission, SequenceId id, const Shared& shared);

  SequenceId id() const { return id_; }
  const std::string& request_id() const { return stream_->request_id(); }
  const Sampler& sampler() const { return sampler_; }
  int32_t completion_tokens() const { return usage_.completion_tokens; }
  double submit_time() const { return submit_time_; }
  double deadline() const { return deadline_; }

  void on_admitted(int64_t cached);  // it got pages; so many positions were in the prefix cache
  void on_scheduled(double now);     // a step works on it
  void on_preempted() { ++usage_.preemptions; }

  // The score of the next prompt token, from the second on.
  void add_prompt_logprobs(TokenLogprobs entry);
  int32_t wanted_prompt_logprobs() const { return wanted_prompt_logprobs_; }  // -1 = none
  bool wants_tokens() const { return params_.max_tokens > 0; }                // false: only scores
  // The prompt was computed and no tokens are wanted: the terminal event.
  StreamEvent finish_scoring(double now);

  // Takes the next token. Pushes its event, unless it is the terminal one, which is returned.
  std::optional<StreamEvent> take(const SampledToken& token, double now);
  // The terminal event of a request that ends here; it gives out the text that was held back.
  StreamEvent finish(FinishReason reason, Status error, double now);
  TokenStream& stream() { return *stream_; }

 private:
  bool is_stop_id(int32_t id) const;
  void append_text(const std::string& text, StreamEvent* event);
  void flush_text(StreamEvent* event);
  StreamEvent terminal(StreamEvent event, double now);

  SequenceId id_;
  const Shared* shared_;
  SamplingParams params_;
  std::shared_ptr<TokenStream> stream_;
  Sampler sampler_;
  std::optional<IncrementalDetokenizer> detokenizer_;
  StopMatcher stop_matcher_;
  int32_t wanted_prompt_logprobs_;
  std::vector<TokenLogprobs> prompt_logprobs_;  // so far; moved into the first event

  Usage usage_;
  double submit_time_;
  double deadline_;
  double first_step_time_ = -1;  // -1 = not yet
  double first_token_time_ = -1;
  double last_token_time_ = -1;
};

}  // namespace fathom
