// From a conversation to a job; from an answer to blocks.
#include "http/api/chat_call.h"

#include <utility>

#include "http/api/tools.h"

namespace fathom::api {

Json field_or_null(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? Json(nullptr) : *found;
}

ApiResult<RenderedChat> prepare_chat(const Service& service, const ChatCall& call, Job* job) {
  FATHOM_API_ASSIGN(ToolPlan plan, plan_tools(call.tools, call.tool_choice));
  ChatInput input;
  input.messages = call.messages;
  input.tools = plan.tools;
  input.kwargs = call.variables;
  FATHOM_API_ASSIGN(RenderedChat chat, render_chat(service, input));
  // The markers of tool calls are special tokens: the parser has to see them.
  if (chat.format.output.tools != ToolFormat::kNone) {
    job->params.sampling.skip_special_tokens = false;
  }
  job->prompts = {chat.prompt};
  StructureRequest wanted;
  wanted.tools = std::move(plan);
  wanted.parallel_calls = job->params.parallel_tool_calls;
  wanted.response_format = call.response_format;
  wanted.structured_outputs = call.structured_outputs;
  FATHOM_API_ASSIGN(job->structure, plan_structure(service, wanted, chat));
  return chat;
}

void BlockWalker::enter(Block block) {
  if (current_ == block) return;
  if (current_ != Block::kNone) close(current_);
  current_ = block;
  if (block != Block::kNone) open(block);
}

void BlockWalker::add_text(const std::string& text) {
  if (current_ != Block::kText) {
    held_ += text;
    if (held_.find_first_not_of(" \t\r\n") == std::string::npos) return;
    enter(Block::kText);
    any_ = true;
    piece(Block::kText, std::exchange(held_, ""));
    return;
  }
  piece(Block::kText, text);
}

void BlockWalker::walk(const ChatDelta& delta) {
  if (!delta.reasoning.empty()) {
    enter(Block::kReasoning);
    piece(Block::kReasoning, delta.reasoning);
  }
  if (!delta.content.empty()) add_text(delta.content);
  for (const CalledTool& tool : delta.calls) {
    held_.clear();
    enter(Block::kNone);
    any_ = true;
    call(tool);
  }
}

void BlockWalker::finish() {
  if (!any_ && !held_.empty()) {
    enter(Block::kText);
    piece(Block::kText, held_);
  }
  enter(Block::kNone);
}

}  // namespace fathom::api
