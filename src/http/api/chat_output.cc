// Events to deltas.
#include "http/api/chat_output.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <utility>

#include "http/api/reply_parts.h"

namespace fathom::api {

ChatOutput::ChatOutput(Options options)
    : options_(std::move(options)),
      parser_(options_.parse ? options_.format.output : OutputFormat(),
              options_.parse && options_.format.inside_reasoning),
      reasoning_begun_(options_.parse && options_.format.inside_reasoning) {}

// The same for the same request and place, so that a replayed answer has the same bytes.
std::string ChatOutput::call_id(size_t index) const {
  const std::string seed = fmt::format("{}:{}", options_.call_seed, index);
  const XXH128_hash_t hash = XXH3_128bits(seed.data(), seed.size());
  return fmt::format("call_{:016x}{:08x}", hash.high64, hash.low64 >> 32);
}

void ChatOutput::add(const std::vector<OutputEvent>& events, ChatDelta* delta) {
  for (const OutputEvent& event : events) {
    switch (event.kind) {
      case OutputEvent::Kind::kReasoning:
        reasoning_begun_ = true;
        delta->reasoning += event.text;
        break;
      case OutputEvent::Kind::kContent:
        content_begun_ = true;
        delta->content += event.text;
        break;
      case OutputEvent::Kind::kToolCallBegin:
        content_begun_ = true;
        dropping_call_ = !options_.parallel_calls && !calls_.empty();
        if (dropping_call_) break;
        if (delta->calls.empty()) delta->first_call = calls_.size();
        calls_.push_back({call_id(calls_.size()), event.text, ""});
        delta->calls.push_back(calls_.back());
        break;
      case OutputEvent::Kind::kToolCallArguments:
        if (dropping_call_ || calls_.empty()) break;
        calls_.back().arguments += event.text;
        if (delta->calls.empty()) {  // a further piece of a call that began in an earlier event
          delta->first_call = calls_.size() - 1;
          delta->calls.push_back({"", "", event.text});
        } else {
          delta->calls.back().arguments += event.text;
        }
        break;
    }
  }
}

ChatDelta ChatOutput::take(const StreamEvent& event) {
  ChatDelta delta;
  add(parser_.feed(event.text), &delta);
  if (event.finished) {
    add(parser_.finish(), &delta);
    finished_ = true;
    reason_ = event.finish_reason;
    stop_string_ = event.stop_string;
    stop_token_ = event.stop_token_id;
  }
  content_ += delta.content;
  reasoning_ += delta.reasoning;
  delta.in_reasoning = reasoning_begun_ && !content_begun_;
  return delta;
}

const char* ChatOutput::finish_reason() const {
  if (reason_ == FinishReason::kStop && !calls_.empty()) return "tool_calls";
  return openai_finish(reason_);
}

Json ChatOutput::stop_reason() const {
  if (!stop_string_.empty()) return stop_string_;
  return stop_token_ >= 0 ? Json(stop_token_) : Json(nullptr);
}

}  // namespace fathom::api
