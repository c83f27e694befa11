// /v1/chat/completions: the body's form and what it asks for.
#include <algorithm>
#include <utility>

#include "http/api/chat_call.h"
#include "http/api/chat_reply.h"
#include "http/api/endpoints.h"

namespace fathom::api {

namespace {

std::vector<Field> chat_fields() {
  std::vector<Field> fields = {
      {"model", Schema::string()},
      {"messages", messages_schema(), true},
      {"tools", tools_schema()},
      {"tool_choice", tool_choice_schema()},
      {"response_format", response_format_schema()},
      {"structured_outputs", structured_outputs_schema()},
      {"chat_template_kwargs", Schema::map(Schema::any()).about("Variables of the template.")},
      {"add_generation_prompt", Schema::boolean()},
      {"continue_final_message",
       Schema::boolean().about("The answer goes on where the last message ends.")},
      {"documents", Schema::array(Schema::map(Schema::any()))},
      {"reasoning_effort",
       Schema::one_of_texts({"none", "minimal", "low", "medium", "high", "xhigh", "max"})},
      {"thinking",
       Schema::object({{"type", Schema::one_of_texts({"enabled", "disabled", "auto"}), true}})},
      {"functions", Schema::refused("functions is OpenAI's form of 2023; use tools.")},
      {"function_call",
       Schema::refused("function_call is OpenAI's form of 2023; use tool_choice.")},
      {"audio", Schema::refused("audio cannot be had: this model writes text only.")},
      // These say nothing about the answer.
      {"user", Schema::string()},
      {"store", Schema::boolean()},
      {"metadata", Schema::map(Schema::any())},
      {"service_tier", Schema::string()},
      {"prompt_cache_key", Schema::string()},
      {"safety_identifier", Schema::string()}};
  for (Field& field : parameter_fields(kChat)) fields.push_back(std::move(field));
  return fields;
}

bool is_true(const Json& body, const char* name) {
  const auto found = body.find(name);
  return found != body.end() && found->is_boolean() && found->get<bool>();
}

}  // namespace

const Schema& chat_body() {
  static const Schema schema = Schema::object(chat_fields());
  return schema;
}

ApiResult<Job> make_chat_job(const Service& service, const HttpRequest& request, const Json& body) {
  if (is_true(body, "add_generation_prompt") && is_true(body, "continue_final_message")) {
    return fail("continue_final_message",
                "continue_final_message and add_generation_prompt are both true; an answer either "
                "goes on in the last message or begins a new one.");
  }
  Job job;
  job.params.sampling = service.engine().default_sampling();
  apply_parameters(body, kChat, &job.params);
  FATHOM_API_TRY(check_together(job.params));
  job.params.logprobs = job.params.logprobs || job.params.top_logprobs > 0;
  if (job.params.logprobs) job.params.sampling.logprobs = job.params.top_logprobs;

  ChatCall call;
  call.messages = body["messages"];
  call.tools = field_or_null(body, "tools");
  call.tool_choice = field_or_null(body, "tool_choice");
  call.response_format = field_or_null(body, "response_format");
  call.structured_outputs = field_or_null(body, "structured_outputs");
  call.variables = template_variables(service, body);
  FATHOM_API_ASSIGN(RenderedChat chat, prepare_chat(service, call, &job));
  job.reply = make_chat_reply({job.params, chat.format,
                               TokenNames{service.engine().tokenizer(), job.params.tokens_as_ids},
                               std::move(chat.prompt), request.id});
  return job;
}

}  // namespace fathom::api
