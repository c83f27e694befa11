// Splits what a model says into reasoning, content and tool calls, while it is being said.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// How tool calls are written.
enum class ToolFormat {
  kNone,
  kDeepSeekV3,   // V2.5, V3, R1: type, separator, name, then the arguments in a ```json fence
  kDeepSeekV31,  // V3.1: name, separator, arguments
};

struct OutputFormat {
  bool reasoning = false;  // <think> … </think> may come before the content
  ToolFormat tools = ToolFormat::kNone;
};

// What a model whose chat template is this writes.
OutputFormat detect_output_format(std::string_view template_source);
// Whether a rendered prompt leaves the model inside its reasoning: it ends in <think>, or in
// <think> and white space.
bool opens_reasoning(std::string_view prompt);

struct OutputEvent {
  enum class Kind {
    kReasoning,          // text: the next piece of the reasoning
    kContent,            // text: the next piece of the answer
    kToolCallBegin,      // index, text: the function's name
    kToolCallArguments,  // index, text: the next piece of its arguments, JSON
  } kind = Kind::kContent;
  int index = 0;  // of the tool call, from 0
  std::string text;

  bool operator==(const OutputEvent&) const = default;
};

class ToolSection;

// Parser of one answer; used by one thread. Text must keep its special tokens (do not skip them
// when decoding). Pieces may be cut anywhere: what could be the begin of a marker is held back. A
// tool call is announced when it is complete and its arguments are valid JSON; one that is cut
// short or malformed comes out as content, markers included. Apart from markers and the white space
// between calls, every byte fed comes out exactly once, in order.
class OutputParser {
 public:
  OutputParser(OutputFormat format, bool inside_reasoning);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  std::vector<OutputEvent> feed(std::string_view text);
  std::vector<OutputEvent> finish();              // the answer is over: flushes what was held back
  int tool_calls() const { return tool_calls_; }  // announced so far

 private:
  enum class State {
    kStart,  // nothing but white space yet: <think> may open the reasoning
    kReasoning,
    kContent,
    kTools,
  };

  bool step(bool final, std::vector<OutputEvent>& events);
  bool step_start(bool final);
  bool step_reasoning(bool final, std::vector<OutputEvent>& events);
  bool step_content(bool final, std::vector<OutputEvent>& events);
  bool step_tools(bool final, std::vector<OutputEvent>& events);
  void emit_up_to(size_t bytes, OutputEvent::Kind kind, std::vector<OutputEvent>& events);

  OutputFormat format_;
  State state_;
  bool reasoning_begun_ = false;          // a repeated <think> is dropped only before this
  std::string pending_;                   // fed, not yet out
  std::unique_ptr<ToolSection> section_;  // null without tools
  int tool_calls_ = 0;
};

}  // namespace fathom
