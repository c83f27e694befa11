// /tokenize and /detokenize, in vLLM's form.
#include <utility>

#include "http/api/endpoints.h"
#include "http/api/messages.h"
#include "http/api/tools.h"

namespace fathom::api {

namespace {

Json field_of(const Json& body, const char* name) {
  const auto found = body.find(name);
  return found == body.end() ? Json(nullptr) : *found;
}

bool flag_of(const Json& body, const char* name, bool fallback) {
  const Json value = field_of(body, name);
  return value.is_boolean() ? value.get<bool>() : fallback;
}

ApiResult<std::vector<int32_t>> encode(const Service& service, const Json& body) {
  if (body.contains("messages") && !body["messages"].is_null()) {
    ChatInput input;
    input.messages = body["messages"];
    FATHOM_API_ASSIGN(ToolPlan plan, plan_tools(field_of(body, "tools"), nullptr));
    input.tools = std::move(plan.tools);
    input.kwargs = template_variables(service, body);
    FATHOM_API_ASSIGN(RenderedChat chat, render_chat(service, input));
    return std::move(chat.prompt);
  }
  const Json prompt = field_of(body, "prompt");
  if (prompt.is_null()) {
    return fail("prompt", "There is neither prompt nor messages; give one of them.");
  }
  const TextPrompt text{prompt.get<std::string>(), flag_of(body, "add_special_tokens", true), true};
  Result<std::vector<int32_t>> ids = service.engine().encode_prompt(text);
  if (!ids) return fail(from_status(ids.error(), "prompt"));
  return std::move(*ids);
}

}  // namespace

const Schema& tokenize_body() {
  static const Schema schema = Schema::object(
      {{"model", Schema::string()},
       {"prompt", Schema::string().about("Either this or messages.")},
       {"messages", messages_schema()},
       {"tools", tools_schema()},
       {"add_special_tokens", Schema::boolean().about("BOS before prompt. Default true.")},
       {"add_generation_prompt", Schema::boolean()},
       {"continue_final_message", Schema::boolean()},
       {"chat_template_kwargs", Schema::map(Schema::any())},
       {"return_token_strs", Schema::boolean()}});
  return schema;
}

ApiResult<Json> tokenize(const Service& service, const Json& body) {
  FATHOM_API_TRY(model_of(service, body));
  FATHOM_API_ASSIGN(const std::vector<int32_t> ids, encode(service, body));
  Json out = {{"count", ids.size()},
              {"max_model_len", service.engine().max_model_len()},
              {"tokens", ids},
              {"token_strs", nullptr}};
  if (flag_of(body, "return_token_strs", false)) {
    Json texts = Json::array();
    for (const int32_t id : ids) texts.push_back(service.engine().tokenizer()->token_text(id));
    out["token_strs"] = std::move(texts);
  }
  return out;
}

const Schema& detokenize_body() {
  static const Schema schema =
      Schema::object({{"model", Schema::string()},
                      {"tokens", Schema::array(Schema::integer(0, 2147483647)), true},
                      {"skip_special_tokens", Schema::boolean().about("Default false.")}});
  return schema;
}

ApiResult<Json> detokenize(const Service& service, const Json& body) {
  FATHOM_API_TRY(model_of(service, body));
  const Tokenizer* tokenizer = service.engine().tokenizer();
  if (tokenizer == nullptr) {
    return fail("tokens", "The model's folder has no tokenizer.json, so ids have no text.");
  }
  std::vector<int32_t> ids;
  for (const Json& id : body["tokens"]) ids.push_back(static_cast<int32_t>(id.get<double>()));
  return Json{{"prompt", tokenizer->decode(ids, flag_of(body, "skip_special_tokens", false))}};
}

}  // namespace fathom::api
