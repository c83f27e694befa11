// Anthropic's messages, tools and choices in OpenAI's chat form.
#include "http/api/anthropic.h"

#include <fmt/format.h>

#include <utility>

#include "http/api/endpoints.h"

namespace fathom::api {

namespace {

Schema text_block() {
  return Schema::object({{"text", Schema::string(), true},
                         {"cache_control", Schema::map(Schema::any())},
                         {"citations", Schema::any()}});
}

Schema blocks_schema() {
  const char* hint = "This model reads text only.";
  Schema result_content = Schema::any_of(
      {Schema::string(),
       Schema::array(Schema::tagged("type", {{"text", text_block()}}).otherwise(hint))});
  return Schema::array(
      Schema::tagged(
          "type", {{"text", text_block()},
                   {"tool_use", Schema::object({{"id", Schema::string(), true},
                                                {"name", Schema::string().nonempty(), true},
                                                {"input", Schema::map(Schema::any()), true},
                                                {"cache_control", Schema::map(Schema::any())}})},
                   {"tool_result", Schema::object({{"tool_use_id", Schema::string(), true},
                                                   {"content", result_content},
                                                   {"is_error", Schema::boolean()},
                                                   {"cache_control", Schema::map(Schema::any())}})},
                   {"thinking", Schema::object({{"thinking", Schema::string(), true},
                                                {"signature", Schema::string()}})},
                   {"redacted_thinking", Schema::object({{"data", Schema::string(), true}})}})
          .otherwise(hint));
}

Schema output_format() {
  return Schema::tagged(
      "type", {{"json_schema", Schema::object({{"schema", Schema::map(Schema::any()), true}})}});
}

std::vector<Field> prompt_fields() {
  Schema tool = Schema::object({{"name", Schema::string().nonempty(), true},
                                {"type", Schema::one_of_texts({"custom"})},
                                {"description", Schema::string()},
                                {"input_schema", Schema::map(Schema::any()), true},
                                {"strict", Schema::boolean()},
                                {"cache_control", Schema::map(Schema::any())}});
  Schema parallel = Schema::object({{"disable_parallel_tool_use", Schema::boolean()}});
  Schema named = Schema::object(
      {{"name", Schema::string(), true}, {"disable_parallel_tool_use", Schema::boolean()}});
  Schema thinking =
      Schema::object({{"type", Schema::one_of_texts({"enabled", "disabled", "adaptive"}), true},
                      {"budget_tokens", Schema::integer(0)}});
  return {
      {"model", Schema::string()},
      {"messages",
       Schema::array(
           Schema::object({{"role", Schema::one_of_texts({"user", "assistant"}), true},
                           {"content", Schema::any_of({Schema::string(), blocks_schema()}), true}}),
           1),
       true},
      {"system", Schema::any_of({Schema::string(),
                                 Schema::array(Schema::tagged("type", {{"text", text_block()}}))})},
      {"tools", Schema::array(tool, 0, 1024)},
      {"tool_choice",
       Schema::tagged(
           "type",
           {{"auto", parallel}, {"any", parallel}, {"tool", named}, {"none", Schema::object({})}})},
      {"thinking", thinking},
      {"output_format", output_format()},
      {"output_config",
       Schema::object({{"format", output_format()}, {"effort", Schema::string()}})},
      {"chat_template_kwargs", Schema::map(Schema::any())}};
}

std::string joined_text(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string out;
  for (const Json& block : content) {
    if (!block.contains("text")) continue;
    if (!out.empty()) out += '\n';
    out += block["text"].get_ref<const std::string&>();
  }
  return out;
}

Json assistant_message(const Json& blocks) {
  Json message = {{"role", "assistant"}, {"content", joined_text(blocks)}};
  if (blocks.is_string()) return message;
  std::string thinking;
  Json calls = Json::array();
  for (const Json& block : blocks) {
    if (block["type"] == "thinking") thinking += block["thinking"].get_ref<const std::string&>();
    if (block["type"] != "tool_use") continue;
    calls.push_back({{"id", block["id"]},
                     {"type", "function"},
                     {"function", {{"name", block["name"]}, {"arguments", dump(block["input"])}}}});
  }
  if (!thinking.empty()) message["reasoning_content"] = thinking;
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

// Results of tools come as blocks of the user; they are messages of their own before the text.
void add_user_messages(const Json& content, Json* messages) {
  if (content.is_string()) {
    messages->push_back({{"role", "user"}, {"content", content}});
    return;
  }
  bool any_result = false;
  for (const Json& block : content) {
    if (block["type"] != "tool_result") continue;
    any_result = true;
    const Json result = field_or_null(block, "content");
    messages->push_back({{"role", "tool"},
                         {"tool_call_id", block["tool_use_id"]},
                         {"content", result.is_null() ? "" : joined_text(result)}});
  }
  const std::string text = joined_text(content);
  if (!any_result || !text.empty()) {
    messages->push_back({{"role", "user"}, {"content", text}});
  }
}

ApiResult<void> check_roles(const Json& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& content = messages[i]["content"];
    if (content.is_string()) continue;
    const bool by_user = messages[i]["role"] == "user";
    for (size_t j = 0; j < content.size(); ++j) {
      const std::string type = content[j]["type"];
      if (type == "text" || by_user == (type == "tool_result")) continue;
      const std::string path = fmt::format("messages[{}].content[{}].type", i, j);
      return fail(path, fmt::format("{} is \"{}\", which a message of the {} cannot have.", path,
                                    type, by_user ? "user" : "assistant"));
    }
  }
  return {};
}

Json openai_tools(const Json& tools) {
  if (tools.is_null()) return nullptr;
  Json out = Json::array();
  for (const Json& tool : tools) {
    Json function = {{"name", tool["name"]}};
    if (tool.contains("description")) function["description"] = tool["description"];
    function["parameters"] = tool["input_schema"];
    if (tool.contains("strict")) function["strict"] = tool["strict"];
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

Json openai_choice(const Json& choice) {
  if (choice.is_null()) return nullptr;
  if (choice["type"] == "any") return "required";
  if (choice["type"] == "tool") {
    return {{"type", "function"}, {"function", {{"name", choice["name"]}}}};
  }
  return choice["type"];
}

ApiResult<ChatCall> read_call(const Service& service, const Json& body) {
  FATHOM_API_TRY(check_roles(body["messages"]));
  ChatCall call;
  call.messages = Json::array();
  const Json system = field_or_null(body, "system");
  if (!system.is_null()) {
    call.messages.push_back({{"role", "system"}, {"content", joined_text(system)}});
  }
  for (const Json& message : body["messages"]) {
    if (message["role"] == "user") {
      add_user_messages(message["content"], &call.messages);
    } else {
      call.messages.push_back(assistant_message(message["content"]));
    }
  }
  call.tools = openai_tools(field_or_null(body, "tools"));
  call.tool_choice = openai_choice(field_or_null(body, "tool_choice"));
  Json format = field_or_null(body, "output_format");
  const Json config = field_or_null(body, "output_config");
  if (format.is_null() && config.is_object()) format = field_or_null(config, "format");
  if (!format.is_null()) {
    call.response_format = {{"type", "json_schema"},
                            {"json_schema", {{"schema", format["schema"]}}}};
  }
  call.variables = template_variables(service, body);
  // A last message of the assistant is the beginning of the answer.
  const Json& last = body["messages"].back();
  if (last["role"] == "assistant" && call.messages.back()["content"] != "" &&
      !call.messages.back().contains("tool_calls")) {
    call.variables["continue_final_message"] = true;
  }
  return call;
}

}  // namespace

const Schema& messages_body() {
  static const Schema schema = [] {
    std::vector<Field> fields = prompt_fields();
    fields.push_back({"max_tokens",
                      Schema::integer(1, 2147483647)
                          .about("Most tokens to generate; what exceeds the context is cut "
                                 "to it."),
                      true});
    fields.push_back({"metadata", Schema::map(Schema::any())});
    fields.push_back({"service_tier", Schema::string()});
    for (Field& field : parameter_fields(kMessages)) fields.push_back(std::move(field));
    return Schema::object(std::move(fields));
  }();
  return schema;
}

const Schema& count_tokens_body() {
  static const Schema schema = Schema::object(prompt_fields());
  return schema;
}

ApiResult<Job> make_messages_job(const Service& service, const HttpRequest& request,
                                 const Json& body) {
  Job job;
  job.params.sampling = service.engine().default_sampling();
  apply_parameters(body, kMessages, &job.params);
  job.params.max_tokens = static_cast<int64_t>(body["max_tokens"].get<double>());
  FATHOM_API_TRY(check_together(job.params));
  const Json choice = field_or_null(body, "tool_choice");
  job.params.parallel_tool_calls =
      choice.is_null() || field_or_null(choice, "disable_parallel_tool_use") != true;
  FATHOM_API_ASSIGN(const ChatCall call, read_call(service, body));
  FATHOM_API_ASSIGN(const RenderedChat chat, prepare_chat(service, call, &job));
  MessagesReplyOptions reply;
  reply.stream = job.params.stream;
  reply.output = {chat.format, true, job.params.parallel_tool_calls, request.id};
  reply.prompt_tokens = static_cast<int64_t>(chat.prompt.size());
  job.reply = make_messages_reply(std::move(reply));
  return job;
}

ApiResult<Json> count_tokens(const Service& service, const Json& body) {
  FATHOM_API_TRY(model_of(service, body));
  FATHOM_API_ASSIGN(const ChatCall call, read_call(service, body));
  Job job;
  FATHOM_API_ASSIGN(const RenderedChat chat, prepare_chat(service, call, &job));
  return Json{{"input_tokens", chat.prompt.size()}};
}

}  // namespace fathom::api
