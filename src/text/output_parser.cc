// Splits what a model says into reasoning, content and tool calls, while it is being said.
#include "text/output_parser.h"

#include <algorithm>

#include "text/tool_section.h"

namespace fathom {

namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::unique_ptr<ToolSection> make_section(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      return nullptr;
    case ToolFormat::kDeepSeekV3:
      return make_delimited_section(deepseek_v3_syntax());
    case ToolFormat::kDeepSeekV31:
      return make_delimited_section(deepseek_v31_syntax());
  }
  return nullptr;
}

}  // namespace

OutputFormat detect_output_format(std::string_view template_source) {
  OutputFormat format;
  format.reasoning = contains(template_source, kThink) || contains(template_source, kThinkEnd);
  if (contains(template_source, deepseek_v3_syntax().call_begin)) {
    format.tools =
        contains(template_source, "```json") ? ToolFormat::kDeepSeekV3 : ToolFormat::kDeepSeekV31;
  }
  return format;
}

bool opens_reasoning(std::string_view prompt) {
  const size_t end = prompt.find_last_not_of(" \t\n\r");
  return end != std::string_view::npos && prompt.substr(0, end + 1).ends_with(kThink);
}

OutputParser::OutputParser(OutputFormat format, bool inside_reasoning)
    : format_(format), state_(State::kContent), section_(make_section(format.tools)) {
  if (format.reasoning) state_ = inside_reasoning ? State::kReasoning : State::kStart;
}

OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

std::vector<OutputEvent> OutputParser::feed(std::string_view text) {
  pending_.append(text);
  std::vector<OutputEvent> events;
  while (step(false, events)) {
  }
  return events;
}

std::vector<OutputEvent> OutputParser::finish() {
  std::vector<OutputEvent> events;
  while (!pending_.empty() && step(true, events)) {
  }
  return events;
}

// Moves `bytes` of the pending text out as an event, joined to the last one of the same kind.
void OutputParser::emit_up_to(size_t bytes, OutputEvent::Kind kind,
                              std::vector<OutputEvent>& events) {
  if (bytes == 0) return;
  if (events.empty() || events.back().kind != kind) events.push_back({kind, 0, {}});
  events.back().text.append(pending_, 0, bytes);
  pending_.erase(0, bytes);
}

// One change of state or piece of output; false when nothing more can be said yet.
bool OutputParser::step(bool final, std::vector<OutputEvent>& events) {
  switch (state_) {
    case State::kStart:
      return step_start(final);
    case State::kReasoning:
      return step_reasoning(final, events);
    case State::kContent:
      return step_content(final, events);
    case State::kTools:
      return step_tools(final, events);
  }
  return false;
}

bool OutputParser::step_start(bool final) {
  const size_t begin = std::min(pending_.find_first_not_of(" \t\n\r"), pending_.size());
  const std::string_view text = std::string_view(pending_).substr(begin);
  if (text.starts_with(kThink)) {
    state_ = State::kReasoning;  // which drops the marker
    return true;
  }
  if (!final && kThink.starts_with(text)) return false;
  state_ = State::kContent;
  return true;
}

bool OutputParser::step_reasoning(bool final, std::vector<OutputEvent>& events) {
  if (!reasoning_begun_) {
    // Some models repeat the <think> that the prompt already holds.
    const size_t begin = std::min(pending_.find_first_not_of(" \t\n\r"), pending_.size());
    const std::string_view text = std::string_view(pending_).substr(begin);
    if (!final && text.size() < kThink.size() && kThink.starts_with(text)) return false;
    if (text.starts_with(kThink)) pending_.erase(0, begin + kThink.size());
    reasoning_begun_ = true;
    return true;
  }
  const size_t end = pending_.find(kThinkEnd);
  if (end != std::string::npos) {
    emit_up_to(end, OutputEvent::Kind::kReasoning, events);
    pending_.erase(0, kThinkEnd.size());
    state_ = State::kContent;
    return true;
  }
  const size_t held = final ? 0 : partial_marker(pending_, kThinkEnd);
  emit_up_to(pending_.size() - held, OutputEvent::Kind::kReasoning, events);
  return false;
}

bool OutputParser::step_content(bool final, std::vector<OutputEvent>& events) {
  if (section_ == nullptr) {
    emit_up_to(pending_.size(), OutputEvent::Kind::kContent, events);
    return false;
  }
  const size_t begin = pending_.find(section_->opening());
  if (begin != std::string::npos) {
    emit_up_to(begin, OutputEvent::Kind::kContent, events);
    section_->begin();
    state_ = State::kTools;
    return true;
  }
  const size_t held = final ? 0 : partial_marker(pending_, section_->opening());
  emit_up_to(pending_.size() - held, OutputEvent::Kind::kContent, events);
  return false;
}

bool OutputParser::step_tools(bool final, std::vector<OutputEvent>& events) {
  using Kind = ToolSection::Step::Kind;
  ToolSection::Step step = section_->step(pending_, final);
  switch (step.kind) {
    case Kind::kMore:
      return false;
    case Kind::kText:
      emit_up_to(step.bytes, OutputEvent::Kind::kContent, events);
      return true;
    case Kind::kCall:
      pending_.erase(0, step.bytes);
      events.push_back({OutputEvent::Kind::kToolCallBegin, tool_calls_, std::move(step.call.name)});
      events.push_back(
          {OutputEvent::Kind::kToolCallArguments, tool_calls_, std::move(step.call.arguments)});
      ++tool_calls_;
      return true;
    case Kind::kDone:
      pending_.erase(0, step.bytes);
      state_ = State::kContent;
      return true;
    case Kind::kLeave:
      state_ = State::kContent;
      return true;
  }
  return false;
}

}  // namespace fathom
