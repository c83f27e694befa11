// /v1/completions: the body's form and what it asks for.
#include <fmt/format.h>

#include <utility>

#include "http/api/chat_call.h"
#include "http/api/completion_reply.h"
#include "http/api/endpoints.h"

namespace fathom::api {

namespace {

constexpr size_t kMaxPrompts = 1024;
constexpr int64_t kDefaultMaxTokens = 16;  // OpenAI's

std::vector<Field> completion_fields() {
  const Schema id = Schema::integer(0, 2147483647);
  std::vector<Field> fields = {
      {"model", Schema::string()},
      {"prompt",
       Schema::any_of({Schema::string(), Schema::array(Schema::string(), 1, kMaxPrompts),
                       Schema::array(id, 1), Schema::array(Schema::array(id, 1), 1, kMaxPrompts)}),
       true},
      {"best_of", Schema::integer(1, kMaxChoices).about("Refused unless it equals n.")},
      {"suffix",
       Schema::one_of_texts({""}).otherwise(
           "suffix is not supported; write the model's fill-in-the-middle tokens into the prompt "
           "instead.")},
      {"response_format", response_format_schema()},
      {"structured_outputs", structured_outputs_schema()},
      {"user", Schema::string()}};
  for (Field& field : parameter_fields(kCompletions)) fields.push_back(std::move(field));
  return fields;
}

ApiResult<CompletionPrompt> encode_one(const Service& service, const Json& given,
                                       const GenerationParams& params, const std::string& path) {
  CompletionPrompt prompt;
  const Tokenizer* tokenizer = service.engine().tokenizer();
  Prompt input;
  if (given.is_string()) {
    prompt.text = given.get<std::string>();
    input = TextPrompt{prompt.text, params.add_special_tokens, true};
  } else {
    TokenPrompt ids;
    for (const Json& id : given) ids.push_back(static_cast<int32_t>(id.get<double>()));
    if (tokenizer != nullptr) {
      prompt.text = tokenizer->decode(ids, params.sampling.skip_special_tokens);
    }
    input = std::move(ids);
  }
  Result<std::vector<int32_t>> ids = service.engine().encode_prompt(input);
  if (!ids) return fail(from_status(ids.error(), path));
  if (ids->empty()) {
    return fail(path, fmt::format("{} has no tokens; give at least one.", path));
  }
  prompt.ids = std::move(*ids);
  return prompt;
}

ApiResult<std::vector<CompletionPrompt>> encode_all(const Service& service, const Json& given,
                                                    const GenerationParams& params) {
  std::vector<CompletionPrompt> prompts;
  if (given.is_string() || given[0].is_number()) {
    FATHOM_API_ASSIGN(CompletionPrompt prompt, encode_one(service, given, params, "prompt"));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    FATHOM_API_ASSIGN(CompletionPrompt prompt,
                      encode_one(service, given[i], params, fmt::format("prompt[{}]", i)));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

ApiResult<void> check_best_of(const Json& body, const GenerationParams& params) {
  const auto best_of = body.find("best_of");
  if (best_of != body.end() && best_of->is_number() && best_of->get<double>() != params.n) {
    return fail("best_of", fmt::format("best_of is {} and n is {}; best_of is supported only where "
                                       "both are equal. Leave it out.",
                                       dump(*best_of), params.n));
  }
  return {};
}

}  // namespace

const Schema& completion_body() {
  static const Schema schema = Schema::object(completion_fields());
  return schema;
}

ApiResult<Job> make_completion_job(const Service& service, const HttpRequest&, const Json& body) {
  Job job;
  job.params.sampling = service.engine().default_sampling();
  job.params.max_tokens = kDefaultMaxTokens;
  apply_parameters(body, kCompletions, &job.params);
  FATHOM_API_TRY(check_together(job.params));
  FATHOM_API_TRY(check_best_of(body, job.params));
  GenerationParams& params = job.params;
  if (params.logprobs) params.sampling.logprobs = params.top_logprobs;
  if (params.echo && params.logprobs) params.prompt_logprobs = params.top_logprobs;
  // The engine ends after the prompt only where the prompt's probabilities are asked for.
  if (params.max_tokens == 0 && params.prompt_logprobs < 0) params.prompt_logprobs = 0;

  FATHOM_API_ASSIGN(std::vector<CompletionPrompt> prompts,
                    encode_all(service, body["prompt"], params));
  if (prompts.size() * static_cast<size_t>(params.n) > kMaxPrompts) {
    return fail("n", fmt::format("{} prompts with n = {} make more than {} choices.",
                                 prompts.size(), params.n, kMaxPrompts));
  }
  StructureRequest wanted;
  wanted.response_format = field_or_null(body, "response_format");
  wanted.structured_outputs = field_or_null(body, "structured_outputs");
  FATHOM_API_ASSIGN(job.structure, plan_structure(service, wanted));
  for (const CompletionPrompt& prompt : prompts) job.prompts.push_back(prompt.ids);
  job.reply = make_completion_reply(
      {params, TokenNames{service.engine().tokenizer(), params.tokens_as_ids}, std::move(prompts)});
  return job;
}

}  // namespace fathom::api
