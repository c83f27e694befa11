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
  kDeepSeekV32,  // V3.2: DSML mark-up in <｜DSML｜function_calls>, one element a parameter
  kDeepSeekV4,   // V4: the same in <｜DSML｜tool_calls>
  kDeepSeekV41,  // V4.1: the same in <｜DSML｜ calls>; every name has a space in front
};

struct OutputFormat {
  bool reasoning = false;  // <think> … </think> may come before the content
  ToolFormat tools = ToolFormat::kNone;
};

// What a model writes. Its chat template decides; `model_type` of config.json does where there is
// no template: V3.2 and V4 come with an encoder instead.
OutputFormat detect_output_format(std::string_view template_source,
                                  std::string_view model_type = {});
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
// when decoding). Pieces may be cut anywhere: what could be the begin of a marker is held back, and
// the events are the same for every way of cutting, but for how texts of one kind are divided.
//
// A tool call is announced when it is complete and its arguments are valid JSON, not in pieces:
// only then is it known to be one. A call that is cut short or malformed comes out as text, markers
// included. A call inside of reasoning counts (models forget </think> before one); what is none
// stays reasoning. Apart from <think>, </think>, the markers of calls, the white space between
// calls and the empty line that DSML has in front of them, every byte fed comes out exactly once,
// in order.
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
  // Looks for tool calls in pending_ before `limit`, which come out as `kind` if they are none.
  bool enter_tools(size_t limit, OutputEvent::Kind kind, std::vector<OutputEvent>& events);
  size_t held_back() const;  // bytes at the end of pending_ that may begin tool calls
  void emit_up_to(size_t bytes, OutputEvent::Kind kind, std::vector<OutputEvent>& events);

  OutputFormat format_;
  State state_;
  bool reasoning_begun_ = false;          // a repeated <think> is dropped only before this
  std::string pending_;                   // fed, not yet out
  std::unique_ptr<ToolSection> section_;  // null without tools
  State around_tools_ = State::kContent;  // where the calls stand: in reasoning or content
  int tool_calls_ = 0;
};

}  // namespace fathom
