// Conversations as clients send them: their form, and what the chat template is given.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "http/api/schema.h"
#include "http/api/service.h"

namespace fathom::api {

Schema messages_schema();
Schema tools_schema();
Schema tool_choice_schema();

// Brings messages (which have passed the schema) into the form that DeepSeek's templates read:
// content as one string (parts joined by a newline), developer as system, function as tool, calls'
// arguments as text or as objects, whichever the template prints right.
Json template_messages(const Json& messages, const std::string& template_source);

// The same for tools: what the template reads is there.
Json template_tools(const Json& tools, const std::string& template_source);

// How an answer to a rendered prompt is read.
struct ChatFormat {
  OutputFormat output;
  bool inside_reasoning = false;  // the prompt ends inside of the reasoning
};

struct RenderedChat {
  std::vector<int32_t> prompt;
  ChatFormat format;
};

// What is rendered. Messages and tools in OpenAI's form, checked.
struct ChatInput {
  Json messages;
  Json tools = nullptr;  // null: none
  Json kwargs = Json::object();
};

// Renders and encodes with the engine's template.
ApiResult<RenderedChat> render_chat(const Service& service, const ChatInput& input);

// Template variables of a request: the server's, then what reasoning_effort and thinking mean to
// this template, then chat_template_kwargs.
Json template_variables(const Service& service, const Json& body);

}  // namespace fathom::api
