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
    case ToolFormat::kDeepSeekV32:
    case ToolFormat::kDeepSeekV4:
    case ToolFormat::kDeepSeekV41:
      return make_dsml_section(dsml_syntax(format));
  }
  return nullptr;
}

// Templates write DSML tags in pieces, so only the names of the sections can be looked for.
ToolFormat detect_tools(std::string_view source) {
  if (contains(source, "｜DSML｜")) {
    if (contains(source, "function_calls>")) return ToolFormat::kDeepSeekV32;
    return contains(source, " calls>") ? ToolFormat::kDeepSeekV41 : ToolFormat::kDeepSeekV4;
  }
  if (!contains(source, deepseek_v3_syntax().call_begin)) return ToolFormat::kNone;
  return contains(source, "```json") ? ToolFormat::kDeepSeekV3 : ToolFormat::kDeepSeekV31;
}

}  // namespace

OutputFormat detect_output_format(std::string_view template_source, std::string_view model_type) {
  OutputFormat format;
  if (!template_source.empty()) {
    format.reasoning = contains(template_source, kThink) || contains(template_source, kThinkEnd);
    format.tools = detect_tools(template_source);
  } else if (model_type == "deepseek_v32") {
    format = {true, ToolFormat::kDeepSeekV32};
  } else if (model_type == "deepseek_v4") {
    format = {true, ToolFormat::kDeepSeekV4};
  } else if (model_type == "deepseek_v41") {
    format = {true, ToolFormat::kDeepSeekV41};
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
  if (enter_tools(end, OutputEvent::Kind::kReasoning, events)) return true;
  if (end != std::string::npos) {
    emit_up_to(end, OutputEvent::Kind::kReasoning, events);
    pending_.erase(0, kThinkEnd.size());
    state_ = State::kContent;
    return true;
  }
  const size_t held = final ? 0 : std::max(partial_marker(pending_, kThinkEnd), held_back());
  emit_up_to(pending_.size() - held, OutputEvent::Kind::kReasoning, events);
  return false;
}

bool OutputParser::step_content(bool final, std::vector<OutputEvent>& events) {
  if (enter_tools(std::string::npos, OutputEvent::Kind::kContent, events)) return true;
  const size_t held = final ? 0 : held_back();
  emit_up_to(pending_.size() - held, OutputEvent::Kind::kContent, events);
  return false;
}

bool OutputParser::enter_tools(size_t limit, OutputEvent::Kind kind,
                               std::vector<OutputEvent>& events) {
  if (section_ == nullptr) return false;
  size_t begin = pending_.find(section_->opening());
  if (begin == std::string::npos || begin >= limit) return false;
  size_t marker = section_->opening().size();
  const std::string_view lead = section_->lead();
  if (std::string_view(pending_).substr(0, begin).ends_with(lead)) {
    begin -= lead.size();
    marker += lead.size();
  }
  emit_up_to(begin, kind, events);
  section_->begin(marker);
  around_tools_ = state_;
  state_ = State::kTools;
  return true;
}

size_t OutputParser::held_back() const {
  if (section_ == nullptr) return 0;
  const std::string led = std::string(section_->lead()) + std::string(section_->opening());
  return std::max(partial_marker(pending_, led), partial_marker(pending_, section_->opening()));
}

bool OutputParser::step_tools(bool final, std::vector<OutputEvent>& events) {
  using Kind = ToolSection::Step::Kind;
  ToolSection::Step step = section_->step(pending_, final);
  switch (step.kind) {
    case Kind::kMore:
      return false;
    case Kind::kText:
      emit_up_to(step.bytes,
                 around_tools_ == State::kReasoning ? OutputEvent::Kind::kReasoning
                                                    : OutputEvent::Kind::kContent,
                 events);
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
      state_ = around_tools_;
      return true;
    case Kind::kLeave:
      state_ = around_tools_;
      return true;
  }
  return false;
}

}  // namespace fathom
