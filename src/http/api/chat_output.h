// ChatOutput: one choice of a chat, split into reasoning, content and tool calls as it comes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "http/api/messages.h"
#include "stream/token_stream.h"
#include "text/output_parser.h"

namespace fathom::api {

struct CalledTool {
  std::string id;
  std::string name;
  std::string arguments;
};

// What one event adds.
struct ChatDelta {
  std::string reasoning;
  std::string content;
  std::vector<CalledTool> calls;
  size_t first_call = 0;      // index of calls[0] in the answer
  bool in_reasoning = false;  // the event's tokens count as reasoning
};

// Used by one thread.
class ChatOutput {
 public:
  struct Options {
    ChatFormat format;
    bool parse = true;           // false: everything is content
    bool parallel_calls = true;  // false: calls after the first are dropped
    std::string call_seed;       // ids of calls are made from it: unique for each choice
  };
  explicit ChatOutput(Options options);

  ChatDelta take(const StreamEvent& event);

  const std::string& content() const { return content_; }
  const std::string& reasoning() const { return reasoning_; }
  const std::vector<CalledTool>& calls() const { return calls_; }
  bool finished() const { return finished_; }
  // Once finished: "stop", "length" or "tool_calls".
  const char* finish_reason() const;
  // What stopped it: a stop string, a stop token's id, or null.
  Json stop_reason() const;
  const std::string& stop_string() const { return stop_string_; }

 private:
  void add(const std::vector<OutputEvent>& events, ChatDelta* delta);
  std::string call_id(size_t index) const;

  Options options_;
  OutputParser parser_;
  std::string content_, reasoning_;
  std::vector<CalledTool> calls_;
  bool content_begun_ = false;
  bool reasoning_begun_;
  bool dropping_call_ = false;
  bool finished_ = false;
  FinishReason reason_ = FinishReason::kStop;
  std::string stop_string_;
  int32_t stop_token_ = -1;
};

}  // namespace fathom::api
