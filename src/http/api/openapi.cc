// Paths and components of the OpenAPI 3.1 document.
#include "http/api/openapi.h"

#include <utility>

#include "http/api/anthropic.h"
#include "http/api/endpoints.h"
#include "http/api/responses.h"

namespace fathom::api {

namespace {

Json ref(const std::string& name) {
  return {{"$ref", "#/components/schemas/" + name}};
}

Schema text_or_null() {
  Schema schema = Schema::string();
  return schema.or_null();
}

Schema openai_error() {
  return Schema::object({{"error",
                          Schema::object({{"message", Schema::string(), true},
                                          {"type", Schema::string(), true},
                                          {"param", text_or_null(), true},
                                          {"code", text_or_null(), true}}),
                          true}});
}

Schema anthropic_error() {
  return Schema::object(
      {{"type", Schema::one_of_texts({"error"}), true},
       {"error",
        Schema::object({{"type", Schema::string(), true}, {"message", Schema::string(), true}}),
        true}});
}

Schema usage() {
  const Schema count = Schema::integer(0);
  return Schema::object(
      {{"prompt_tokens", count, true},
       {"completion_tokens", count, true},
       {"total_tokens", count, true},
       {"prompt_tokens_details", Schema::object({{"cached_tokens", count, true}}), true},
       {"completion_tokens_details", Schema::object({{"reasoning_tokens", count, true}}), true}});
}

std::vector<Field> envelope(const char* object) {
  return {{"id", Schema::string(), true},
          {"object", Schema::one_of_texts({object}), true},
          {"created", Schema::integer(0), true},
          {"model", Schema::string(), true},
          {"system_fingerprint", Schema::string(), true},
          {"seed", Schema::integer(0).about("The seed that was used."), true},
          {"usage", usage(), true}};
}

Schema chat_completion() {
  const Schema call = Schema::object(
      {{"id", Schema::string(), true},
       {"type", Schema::one_of_texts({"function"}), true},
       {"function",
        Schema::object({{"name", Schema::string(), true}, {"arguments", Schema::string(), true}}),
        true}});
  const Schema message = Schema::object({{"role", Schema::one_of_texts({"assistant"}), true},
                                         {"content", text_or_null(), true},
                                         {"reasoning_content", Schema::string()},
                                         {"tool_calls", Schema::array(call, 1)},
                                         {"refusal", text_or_null(), true}});
  const Schema entry = Schema::object({{"token", Schema::string(), true},
                                       {"logprob", Schema::number(), true},
                                       {"bytes", Schema::array(Schema::integer(0, 255)), true},
                                       {"top_logprobs", Schema::array(Schema::any())}});
  Schema choice = Schema::object(
      {{"index", Schema::integer(0), true},
       {"message", message, true},
       {"logprobs", Schema::object({{"content", Schema::array(entry)}})},
       {"finish_reason", Schema::one_of_texts({"stop", "length", "tool_calls"}), true},
       {"stop_reason", Schema::any()},
       {"token_ids", Schema::array(Schema::integer(0))}});
  std::vector<Field> fields = envelope("chat.completion");
  fields.push_back({"choices", Schema::array(choice, 1), true});
  return Schema::object(std::move(fields));
}

Schema completion() {
  Schema lists = Schema::object({{"tokens", Schema::array(Schema::string()), true},
                                 {"token_logprobs", Schema::array(Schema::any()), true},
                                 {"top_logprobs", Schema::array(Schema::any()), true},
                                 {"text_offset", Schema::array(Schema::integer(0)), true}});
  Schema choice = Schema::object({{"index", Schema::integer(0), true},
                                  {"text", Schema::string(), true},
                                  {"logprobs", lists},
                                  {"finish_reason", Schema::one_of_texts({"stop", "length"}), true},
                                  {"stop_reason", Schema::any()}});
  std::vector<Field> fields = envelope("text_completion");
  fields.push_back({"choices", Schema::array(choice, 1), true});
  return Schema::object(std::move(fields));
}

Schema response_object() {
  return Schema::object(
      {{"id", Schema::string(), true},
       {"object", Schema::one_of_texts({"response"}), true},
       {"created_at", Schema::integer(0), true},
       {"status", Schema::one_of_texts({"completed", "incomplete"}), true},
       {"model", Schema::string(), true},
       {"output",
        Schema::array(Schema::object(
            {{"type", Schema::one_of_texts({"message", "reasoning", "function_call"}), true},
             {"id", Schema::string(), true}})),
        true},
       {"usage", Schema::map(Schema::any()), true}});
}

Schema message_object() {
  return Schema::object(
      {{"id", Schema::string(), true},
       {"type", Schema::one_of_texts({"message"}), true},
       {"role", Schema::one_of_texts({"assistant"}), true},
       {"model", Schema::string(), true},
       {"content",
        Schema::array(Schema::object(
            {{"type", Schema::one_of_texts({"text", "thinking", "tool_use"}), true}})),
        true},
       {"stop_reason",
        Schema::one_of_texts({"end_turn", "max_tokens", "stop_sequence", "tool_use"}), true},
       {"stop_sequence", text_or_null(), true},
       {"usage", Schema::map(Schema::integer(0)), true}});
}

Schema model_object() {
  return Schema::object({{"id", Schema::string(), true},
                         {"object", Schema::one_of_texts({"model"}), true},
                         {"created", Schema::integer(0), true},
                         {"owned_by", Schema::string(), true},
                         {"max_model_len", Schema::integer(1), true}});
}

struct Operation {
  const char* path;
  const char* summary;
  const Schema* body;  // nullptr: GET
  const char* body_name;
  const char* answer;  // name of its schema
  bool streams;
  Dialect dialect;
};

Json answer_json(const std::string& about, const Json& schema) {
  return {{"description", about}, {"content", {{"application/json", {{"schema", schema}}}}}};
}

Json operation_json(const Operation& operation) {
  Json out = {{"summary", operation.summary}};
  if (operation.body != nullptr) {
    out["requestBody"] = {
        {"required", true},
        {"content", {{"application/json", {{"schema", ref(operation.body_name)}}}}}};
  }
  Json good = answer_json("The answer.", ref(operation.answer));
  if (operation.streams) {
    // No schema: OpenAPI 3.1 cannot describe single events, and tools take one for that.
    good["content"]["text/event-stream"] = Json::object();
  }
  const Json wrong = ref(operation.dialect == Dialect::kAnthropic ? "AnthropicError" : "Error");
  Json& answers = out["responses"];
  answers["200"] = std::move(good);
  if (operation.body != nullptr) {
    answers["400"] = answer_json("The request is wrong; the message says where.", wrong);
    answers["404"] = answer_json("The model is not served.", wrong);
    answers["413"] = answer_json("The body is too large.", wrong);
    answers["415"] = answer_json("The body is not declared as JSON.", wrong);
    answers["429"] = answer_json("Too many requests; see Retry-After.", wrong);
    answers["500"] = answer_json("A defect of the server.", wrong);
    answers["503"] = answer_json("Loading or shutting down.", wrong);
    answers["504"] = answer_json("The request's time was over.", wrong);
  }
  answers["401"] = answer_json("No API key, or an unknown one.", wrong);
  answers["405"] = answer_json("The path has other methods; see Allow.", ref("Error"));
  return out;
}

std::vector<Operation> operations() {
  return {
      {"/v1/chat/completions", "Answer a conversation", &chat_body(), "ChatRequest",
       "ChatCompletion", true, Dialect::kOpenAi},
      {"/v1/completions", "Continue texts or token ids", &completion_body(), "CompletionRequest",
       "Completion", true, Dialect::kOpenAi},
      {"/v1/responses", "Answer in the form of the Responses API, without state", &responses_body(),
       "ResponsesRequest", "Response", true, Dialect::kOpenAi},
      {"/v1/messages", "Answer in Anthropic's form", &messages_body(), "MessagesRequest", "Message",
       true, Dialect::kAnthropic},
      {"/v1/messages/count_tokens", "Count the tokens of a conversation", &count_tokens_body(),
       "CountTokensRequest", "TokenCount", false, Dialect::kAnthropic},
      {"/tokenize", "Text or a conversation to token ids", &tokenize_body(), "TokenizeRequest",
       "Tokens", false, Dialect::kOpenAi},
      {"/detokenize", "Token ids to text", &detokenize_body(), "DetokenizeRequest", "Text", false,
       Dialect::kOpenAi},
      {"/v1/models", "The models that are served", nullptr, "", "ModelList", false,
       Dialect::kOpenAi},
  };
}

Json answer_schemas() {
  Json out;
  out["Error"] = openai_error().json_schema();
  out["AnthropicError"] = anthropic_error().json_schema();
  out["ChatCompletion"] = chat_completion().json_schema();
  out["Completion"] = completion().json_schema();
  out["Response"] = response_object().json_schema();
  out["Message"] = message_object().json_schema();
  out["TokenCount"] = Schema::object({{"input_tokens", Schema::integer(0), true}}).json_schema();
  out["Tokens"] = Schema::object({{"count", Schema::integer(0), true},
                                  {"max_model_len", Schema::integer(1), true},
                                  {"tokens", Schema::array(Schema::integer(0)), true},
                                  {"token_strs", Schema::array(Schema::string())}})
                      .json_schema();
  out["Text"] = Schema::object({{"prompt", Schema::string(), true}}).json_schema();
  out["Model"] = model_object().json_schema();
  out["ModelList"] = Schema::object({{"object", Schema::one_of_texts({"list"}), true},
                                     {"data", Schema::array(model_object(), 1), true}})
                         .json_schema();
  return out;
}

}  // namespace

Json openapi_document(const Service& service) {
  Json schemas = answer_schemas();
  Json paths = Json::object();
  for (const Operation& operation : operations()) {
    const bool posts = operation.body != nullptr;
    paths[operation.path][posts ? "post" : "get"] = operation_json(operation);
    if (!posts) continue;
    Json body = operation.body->json_schema();
    // The names that are served are known: a client that generates requests needs them.
    Json names = service.model_names();
    names.push_back(nullptr);
    body["properties"]["model"] = {{"type", {"string", "null"}}, {"enum", std::move(names)}};
    schemas[operation.body_name] = std::move(body);
  }
  const Operation entry{"", "One model", nullptr, "", "Model", false, Dialect::kOpenAi};
  for (const std::string& name : service.model_names()) {
    paths["/v1/models/" + name]["get"] = operation_json(entry);
  }
  return {{"openapi", "3.1.0"},
          {"info",
           {{"title", "fathom"},
            {"version", service.options().version},
            {"description",
             "DeepSeek models behind the APIs of OpenAI and Anthropic. Fields that are not listed "
             "are accepted and named in the header X-Fathom-Ignored-Fields."}}},
          {"paths", std::move(paths)},
          {"components",
           {{"schemas", std::move(schemas)},
            {"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}},
          {"security", Json::array({Json::object(), {{"key", Json::array()}}})}};
}

}  // namespace fathom::api
