// Messages to the template and the template's prompt to ids.
#include "http/api/messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/chat_template.h"

namespace fathom::api {

namespace {

Schema content_schema() {
  Schema text = Schema::object({{"text", Schema::string(), true}});
  return Schema::any_of(
      {Schema::string(), Schema::array(Schema::tagged("type", {{"text", text.open()}})
                                           .otherwise("This model reads text only."))});
}

Schema tool_call_schema() {
  return Schema::object(
             {{"id", Schema::string()},
              {"type", Schema::one_of_texts({"function"})},
              {"function",
               Schema::object(
                   {{"name", Schema::string().nonempty(), true},
                    {"arguments", Schema::any_of({Schema::string(), Schema::map(Schema::any())}),
                     true}})
                   .open(),
               true}})
      .open();
}

bool is_plain_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Whether the template passes a call's arguments through tojson, which would quote a text again.
bool template_wants_objects(const std::string& source) {
  if (source.find("arguments'] is string") != std::string::npos) return false;
  constexpr std::string_view kName = "arguments";
  for (size_t at = source.find(kName); at != std::string::npos; at = source.find(kName, at + 1)) {
    size_t i = at + kName.size();
    while (i < source.size() && (is_plain_space(source[i]) || source[i] == '\'' ||
                                 source[i] == '"' || source[i] == ']')) {
      ++i;
    }
    if (i >= source.size() || source[i] != '|') continue;
    ++i;
    while (i < source.size() && is_plain_space(source[i])) ++i;
    if (source.compare(i, 6, "tojson") == 0) return true;
  }
  return false;
}

Json joined_content(const Json& content) {
  if (!content.is_array()) return content;
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    if (i > 0) text += '\n';
    text += content[i]["text"].get_ref<const std::string&>();
  }
  return text;
}

void convert_arguments(Json* call, bool as_objects) {
  if (!call->contains("type")) (*call)["type"] = "function";
  Json& arguments = (*call)["function"]["arguments"];
  if (!as_objects && arguments.is_object()) {
    arguments = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
  } else if (as_objects && arguments.is_string()) {
    const Result<Json> parsed = parse_json(arguments.get_ref<const std::string&>());
    if (parsed && parsed->is_object()) arguments = *parsed;
  }
}

// What a template expects of messages with calls.
struct TemplateHabits {
  bool argument_objects = false;  // not their text
  bool null_content = false;      // V3's prints calls only where the content is null
};

TemplateHabits habits_of(const std::string& source) {
  const auto has = [&](const char* text) { return source.find(text) != std::string::npos; };
  return {template_wants_objects(source), has("content'] is none") || has("content'] is not none")};
}

Json template_message(const Json& given, const TemplateHabits& habits) {
  Json message = given;
  const std::string role = given["role"];
  if (role == "developer") message["role"] = "system";
  if (role == "function") message["role"] = "tool";
  const auto content = given.find("content");
  message["content"] = content == given.end() ? Json(nullptr) : joined_content(*content);
  if (role != "assistant") return message;
  const auto calls = message.find("tool_calls");
  const bool has_calls = calls != message.end() && calls->is_array() && !calls->empty();
  if (calls != message.end() && !has_calls) message.erase("tool_calls");
  if (!has_calls) {
    if (message["content"].is_null()) message["content"] = "";
    return message;
  }
  if (message["content"] == "" || message["content"].is_null()) {
    message["content"] = habits.null_content ? Json(nullptr) : Json("");
  }
  for (Json& call : message["tool_calls"]) convert_arguments(&call, habits.argument_objects);
  return message;
}

// Whether the prompt's last turn is inside of <think>. Looks for the tokens, which text of the user
// can never be; where the tokenizer has none, at the end of the text.
bool ends_inside_reasoning(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt) {
  const auto open = tokenizer.token_id("<think>");
  const auto close = tokenizer.token_id("</think>");
  if (open && close) {
    const auto assistant = tokenizer.token_id("<｜Assistant｜>");
    for (auto id = prompt.rbegin(); id != prompt.rend(); ++id) {
      if (*id == *open) return true;
      if (*id == *close || (assistant && *id == *assistant)) return false;
    }
    return false;
  }
  constexpr size_t kTail = 32;  // more than <think> and white space can take
  const size_t count = std::min(prompt.size(), kTail);
  return opens_reasoning(tokenizer.decode(
      std::vector<int32_t>(prompt.end() - static_cast<std::ptrdiff_t>(count), prompt.end()),
      false));
}

}  // namespace

Schema messages_schema() {
  const Schema content = content_schema();
  const Schema optional_text = Schema::string();
  Schema plain = Schema::object({{"content", content, true}, {"name", Schema::string()}});
  Schema assistant = Schema::object({{"content", content},
                                     {"reasoning_content", optional_text},
                                     {"reasoning", optional_text},
                                     {"tool_calls", Schema::array(tool_call_schema())}});
  Schema tool = Schema::object({{"content", content, true}, {"tool_call_id", Schema::string()}});
  plain.open();
  return Schema::array(Schema::tagged("role", {{"system", plain},
                                               {"developer", plain},
                                               {"user", plain},
                                               {"assistant", assistant.open()},
                                               {"tool", tool.open()},
                                               {"function", plain}}),
                       1)
      .about("The conversation, oldest first.");
}

Schema tools_schema() {
  Schema function = Schema::object({{"name", Schema::string().nonempty(), true},
                                    {"description", Schema::string()},
                                    {"parameters", Schema::map(Schema::any())},
                                    {"strict", Schema::boolean()}});
  Schema tool = Schema::object({{"function", function.open(), true}});
  return Schema::array(Schema::tagged("type", {{"function", tool.open()}})
                           .otherwise("Only functions can be called."),
                       0, 1024);
}

Schema tool_choice_schema() {
  return Schema::any_of(
      {Schema::one_of_texts({"auto", "none", "required"}),
       Schema::tagged(
           "type",
           {{"function",
             Schema::object(
                 {{"function", Schema::object({{"name", Schema::string(), true}}), true}})}})});
}

Json template_messages(const Json& messages, const std::string& template_source) {
  const TemplateHabits habits = habits_of(template_source);
  Json out = Json::array();
  for (const Json& message : messages) out.push_back(template_message(message, habits));
  return out;
}

// Templates that print a tool's description or parameters fail where there are none.
Json template_tools(const Json& tools, const std::string& template_source) {
  const auto reads = [&](const char* field) {
    return template_source.find(field) != std::string::npos;
  };
  Json out = tools;
  for (Json& tool : out) {
    Json& function = tool["function"];
    if (reads("description") && !function.contains("description")) function["description"] = "";
    if (reads("parameters") && !function.contains("parameters")) {
      function["parameters"] = {{"type", "object"}, {"properties", Json::object()}};
    }
  }
  return out;
}

ApiResult<RenderedChat> render_chat(const Service& service, const ChatInput& input) {
  const Engine& engine = service.engine();
  const ChatTemplate* chat_template = engine.chat_template();
  if (engine.tokenizer() == nullptr || chat_template == nullptr) {
    return fail("messages",
                "The model has no chat template, so it cannot chat; use /v1/completions, or start "
                "the server with --chat-template FILE.");
  }
  const bool with_tools = !input.tools.is_null();
  const std::string& source = chat_template->source(with_tools);
  if (with_tools && source.find("tools") == std::string::npos) {
    return fail("tools",
                "The model's chat template has no place for tools; start the server with a "
                "--chat-template that has, or leave tools out.");
  }
  ChatPrompt prompt;
  prompt.messages = dump(template_messages(input.messages, source));
  if (with_tools) prompt.tools = dump(template_tools(input.tools, source));
  prompt.template_kwargs = dump(input.kwargs);
  Result<std::vector<int32_t>> ids = engine.encode_prompt(prompt);
  if (!ids) return fail(from_status(ids.error(), "messages"));
  RenderedChat chat;
  chat.prompt = std::move(*ids);
  chat.format.output = detect_output_format(source, engine.config().model_type);
  if (!with_tools) chat.format.output.tools = ToolFormat::kNone;
  chat.format.inside_reasoning =
      chat.format.output.reasoning && ends_inside_reasoning(*engine.tokenizer(), chat.prompt);
  return chat;
}

Json template_variables(const Service& service, const Json& body) {
  Json variables = service.options().chat_template_kwargs;
  const ChatTemplate* chat_template = service.engine().chat_template();
  const std::string source = chat_template == nullptr ? "" : chat_template->source(false);
  const auto knows = [&](const char* name) { return source.find(name) != std::string::npos; };
  const auto set_thinking = [&](bool on) {
    for (const char* name : {"thinking", "enable_thinking"}) {
      if (knows(name)) variables[name] = on;
    }
  };
  if (service.options().thinking) set_thinking(*service.options().thinking);
  if (const auto effort = body.find("reasoning_effort");
      effort != body.end() && effort->is_string()) {
    set_thinking(*effort != "none");
    if (knows("reasoning_effort")) variables["reasoning_effort"] = *effort;
  }
  if (const auto thinking = body.find("thinking");
      thinking != body.end() && thinking->is_object() && thinking->contains("type")) {
    set_thinking((*thinking)["type"] != "disabled");
  }
  for (const char* name : {"add_generation_prompt", "continue_final_message", "documents"}) {
    const auto found = body.find(name);
    if (found != body.end() && !found->is_null()) variables[name] = *found;
  }
  if (const auto given = body.find("chat_template_kwargs");
      given != body.end() && given->is_object()) {
    variables.update(*given);
  }
  return variables;
}

}  // namespace fathom::api
