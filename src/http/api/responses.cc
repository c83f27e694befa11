// Items, tools and formats of the Responses API in chat form.
#include "http/api/responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "http/api/endpoints.h"

namespace fathom::api {

namespace {

constexpr const char* kTextOnly = "This model reads text only.";

// Of messages and of reasoning, whose parts have a type of their own.
Schema content_schema() {
  Schema text = Schema::object({{"text", Schema::string(), true}});
  Schema refusal = Schema::object({{"refusal", Schema::string(), true}});
  text.open();
  return Schema::any_of(
      {Schema::string(), Schema::array(Schema::tagged("type", {{"input_text", text},
                                                               {"output_text", text},
                                                               {"text", text},
                                                               {"reasoning_text", text},
                                                               {"refusal", refusal}})
                                           .otherwise(kTextOnly))});
}

// An item of the input. `type` may be missing from messages, so that this is no tagged union.
Schema item_schema() {
  return Schema::object(
             {{"type", Schema::one_of_texts(
                           {"message", "function_call", "function_call_output", "reasoning"})},
              {"role", Schema::one_of_texts({"user", "assistant", "system", "developer"})},
              {"content", content_schema()},
              {"call_id", Schema::string()},
              {"name", Schema::string()},
              {"arguments", Schema::string()},
              {"output", content_schema()}})
      .open();
}

Schema stored(const std::string& name) {
  return Schema::refused(name +
                         " refers to something stored, and nothing is stored here; send the whole "
                         "conversation as input.");
}

std::vector<Field> response_fields() {
  Schema tool = Schema::object({{"name", Schema::string().nonempty(), true},
                                {"description", Schema::string()},
                                {"parameters", Schema::map(Schema::any())},
                                {"strict", Schema::boolean()}});
  Schema named = Schema::object({{"name", Schema::string(), true}});
  Schema json_schema = Schema::object({{"name", Schema::string()},
                                       {"description", Schema::string()},
                                       {"schema", Schema::map(Schema::any()), true},
                                       {"strict", Schema::boolean()}});
  Schema format = Schema::tagged("type", {{"text", Schema::object({})},
                                          {"json_object", Schema::object({})},
                                          {"json_schema", json_schema}});
  Schema effort =
      Schema::one_of_texts({"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  return {
      {"model", Schema::string()},
      {"input", Schema::any_of({Schema::string(), Schema::array(item_schema(), 1)}), true},
      {"instructions", Schema::string()},
      {"tools",
       Schema::array(
           Schema::tagged("type", {{"function", tool}}).otherwise("Only functions can be called."),
           0, 1024)},
      {"tool_choice", Schema::any_of({Schema::one_of_texts({"auto", "none", "required"}),
                                      Schema::tagged("type", {{"function", named}})})},
      {"text", Schema::object({{"format", format}, {"verbosity", Schema::string()}})},
      {"reasoning", Schema::object({{"effort", effort}, {"summary", Schema::any()}})},
      {"include", Schema::array(Schema::string())},
      {"store", Schema::boolean().about("Nothing is stored, whatever it says.")},
      {"previous_response_id", stored("previous_response_id")},
      {"conversation", stored("conversation")},
      {"prompt", stored("prompt")},
      {"background", Schema::boolean().about("true is refused: nothing is stored.")},
      {"truncation", Schema::one_of_texts({"auto", "disabled"})},
      {"metadata", Schema::map(Schema::any())},
      {"user", Schema::string()},
      {"service_tier", Schema::string()},
      {"prompt_cache_key", Schema::string()},
      {"safety_identifier", Schema::string()},
      {"chat_template_kwargs", Schema::map(Schema::any())}};
}

std::string joined_text(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string out;
  for (size_t i = 0; content.is_array() && i < content.size(); ++i) {
    if (i > 0) out += '\n';
    const Json& part = content[i];
    const char* field = part.contains("text") ? "text" : "refusal";
    if (part.contains(field)) out += part[field].get_ref<const std::string&>();
  }
  return out;
}

// Builds chat messages from items. Calls and reasoning join the message of the assistant that they
// belong to.
class ItemReader {
 public:
  ApiResult<void> read(const Json& item, const std::string& path);
  Json take() {
    flush_reasoning();
    return std::move(messages_);
  }
  void add(const char* role, const std::string& text) {
    messages_.push_back({{"role", role}, {"content", text}});
  }

 private:
  Json& assistant(bool with_text) {
    const bool usable = !messages_.empty() && messages_.back()["role"] == "assistant" &&
                        reasoning_.empty() && (!with_text || messages_.back()["content"] == "");
    if (!usable) {
      messages_.push_back({{"role", "assistant"}, {"content", ""}});
      if (!reasoning_.empty()) messages_.back()["reasoning_content"] = std::move(reasoning_);
      reasoning_.clear();
    }
    return messages_.back();
  }
  void flush_reasoning() {
    if (!reasoning_.empty()) assistant(false);
  }
  ApiResult<std::string> text_field(const Json& item, const std::string& path, const char* name);

  Json messages_ = Json::array();
  std::string reasoning_;
};

ApiResult<std::string> ItemReader::text_field(const Json& item, const std::string& path,
                                              const char* name) {
  const Json value = field_or_null(item, name);
  if (value.is_string()) return value.get<std::string>();
  return fail(path + "." + name, fmt::format("{}.{} is missing; it must be a string.", path, name));
}

ApiResult<void> ItemReader::read(const Json& item, const std::string& path) {
  const Json type = field_or_null(item, "type");
  if (type == "reasoning") {
    reasoning_ += joined_text(field_or_null(item, "content"));
    return {};
  }
  if (type == "function_call") {
    FATHOM_API_ASSIGN(const std::string id, text_field(item, path, "call_id"));
    FATHOM_API_ASSIGN(const std::string name, text_field(item, path, "name"));
    FATHOM_API_ASSIGN(const std::string arguments, text_field(item, path, "arguments"));
    assistant(false)["tool_calls"].push_back(
        {{"id", id},
         {"type", "function"},
         {"function", {{"name", name}, {"arguments", arguments}}}});
    return {};
  }
  if (type == "function_call_output") {
    FATHOM_API_ASSIGN(const std::string id, text_field(item, path, "call_id"));
    flush_reasoning();
    messages_.push_back({{"role", "tool"},
                         {"tool_call_id", id},
                         {"content", joined_text(field_or_null(item, "output"))}});
    return {};
  }
  FATHOM_API_ASSIGN(const std::string role, text_field(item, path, "role"));
  const Json content = field_or_null(item, "content");
  if (content.is_null()) {
    return fail(path + ".content",
                path + ".content is missing; it must be a string or an array of parts.");
  }
  if (role == "assistant") {
    assistant(true)["content"] = joined_text(content);
    return {};
  }
  flush_reasoning();
  messages_.push_back({{"role", role}, {"content", joined_text(content)}});
  return {};
}

Json chat_tools(const Json& tools) {
  if (tools.is_null()) return nullptr;
  Json out = Json::array();
  for (const Json& tool : tools) {
    Json function = tool;
    function.erase("type");
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

Json chat_choice(const Json& choice) {
  if (!choice.is_object()) return choice;
  return {{"type", "function"}, {"function", {{"name", choice["name"]}}}};
}

Json chat_format(const Json& text) {
  const Json format = text.is_object() ? field_or_null(text, "format") : Json(nullptr);
  if (format.is_null() || format["type"] != "json_schema") return format;
  Json inner = format;
  inner.erase("type");
  return {{"type", "json_schema"}, {"json_schema", std::move(inner)}};
}

ApiResult<ChatCall> read_call(const Service& service, const Json& body) {
  ItemReader reader;
  const Json instructions = field_or_null(body, "instructions");
  if (instructions.is_string()) reader.add("system", instructions);
  const Json& input = body["input"];
  if (input.is_string()) {
    reader.add("user", input);
  } else {
    for (size_t i = 0; i < input.size(); ++i) {
      FATHOM_API_TRY(reader.read(input[i], fmt::format("input[{}]", i)));
    }
  }
  ChatCall call;
  call.messages = reader.take();
  call.tools = chat_tools(field_or_null(body, "tools"));
  call.tool_choice = chat_choice(field_or_null(body, "tool_choice"));
  call.response_format = chat_format(field_or_null(body, "text"));
  Json settings = body;
  const Json reasoning = field_or_null(body, "reasoning");
  if (reasoning.is_object() && field_or_null(reasoning, "effort").is_string()) {
    settings["reasoning_effort"] = reasoning["effort"];
  }
  call.variables = template_variables(service, settings);
  return call;
}

// What the response object repeats of the request.
Json echoed_settings(const Json& body, const GenerationParams& params) {
  const auto or_else = [&](const char* name, Json fallback) {
    Json value = field_or_null(body, name);
    return value.is_null() ? std::move(fallback) : value;
  };
  Json text = or_else("text", Json::object());
  if (field_or_null(text, "format").is_null()) text["format"] = {{"type", "text"}};
  Json reasoning = or_else("reasoning", Json::object());
  return {{"background", false},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", or_else("instructions", nullptr)},
          {"max_output_tokens", or_else("max_output_tokens", nullptr)},
          {"metadata", or_else("metadata", Json::object())},
          {"parallel_tool_calls", params.parallel_tool_calls},
          {"previous_response_id", nullptr},
          {"reasoning", {{"effort", field_or_null(reasoning, "effort")}, {"summary", nullptr}}},
          {"service_tier", "default"},
          {"store", false},
          {"temperature", params.sampling.temperature},
          {"text", std::move(text)},
          {"tool_choice", or_else("tool_choice", "auto")},
          {"tools", or_else("tools", Json::array())},
          {"top_logprobs", params.top_logprobs},
          {"top_p", params.sampling.top_p},
          {"truncation", "disabled"},
          {"user", or_else("user", nullptr)}};
}

bool wants_logprobs(const Json& body, const GenerationParams& params) {
  const Json include = field_or_null(body, "include");
  return params.top_logprobs > 0 ||
         (include.is_array() && std::find(include.begin(), include.end(),
                                          "message.output_text.logprobs") != include.end());
}

}  // namespace

const Schema& responses_body() {
  static const Schema schema = [] {
    std::vector<Field> fields = response_fields();
    for (Field& field : parameter_fields(kResponses)) fields.push_back(std::move(field));
    return Schema::object(std::move(fields));
  }();
  return schema;
}

ApiResult<Job> make_responses_job(const Service& service, const HttpRequest& request,
                                  const Json& body) {
  if (field_or_null(body, "background") == true) {
    return fail("background", "background needs stored responses, and nothing is stored here.");
  }
  Job job;
  job.params.sampling = service.engine().default_sampling();
  apply_parameters(body, kResponses, &job.params);
  FATHOM_API_TRY(check_together(job.params));
  job.params.logprobs = wants_logprobs(body, job.params);
  if (job.params.logprobs) job.params.sampling.logprobs = job.params.top_logprobs;
  FATHOM_API_ASSIGN(const ChatCall call, read_call(service, body));
  FATHOM_API_ASSIGN(const RenderedChat chat, prepare_chat(service, call, &job));
  ResponsesReplyOptions reply;
  reply.stream = job.params.stream;
  reply.logprobs = job.params.logprobs;
  reply.output = {chat.format, true, job.params.parallel_tool_calls, request.id};
  reply.names.tokenizer = service.engine().tokenizer();
  reply.prompt_tokens = static_cast<int64_t>(chat.prompt.size());
  reply.echoed = echoed_settings(body, job.params);
  job.reply = make_responses_reply(std::move(reply));
  return job;
}

}  // namespace fathom::api
