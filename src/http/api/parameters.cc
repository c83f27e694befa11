// Each parameter's line: name, form, endpoints, destination.
#include "http/api/parameters.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace fathom::api {

namespace {

constexpr double kMaxInt32 = 2147483647.0;

int32_t int32_of(const Json& value) {
  return static_cast<int32_t>(value.get<double>());
}

// Negative seeds are seeds too: the bits are taken as they are.
uint64_t seed_of(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  return static_cast<uint64_t>(value.get<int64_t>());
}

void set_stop(const Json& value, GenerationParams& out) {
  out.sampling.stop.clear();
  if (value.is_string()) {
    if (!value.get_ref<const std::string&>().empty()) out.sampling.stop.push_back(value);
    return;
  }
  for (const Json& stop : value) {
    if (!stop.get_ref<const std::string&>().empty()) out.sampling.stop.push_back(stop);
  }
}

void set_logit_bias(const Json& value, GenerationParams& out) {
  for (const auto& [key, bias] : value.items()) {
    int32_t id = -1;  // refused by the engine, which knows the ids
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size()) id = -1;
    out.sampling.logit_bias.emplace_back(id, bias.get<float>());
  }
}

void set_stream_options(const Json& value, GenerationParams& out) {
  const auto flag = [&](const char* name) {
    const auto found = value.find(name);
    return found != value.end() && found->is_boolean() && found->get<bool>();
  };
  out.include_usage = flag("include_usage") || flag("continuous_usage_stats");
  out.continuous_usage = flag("continuous_usage_stats");
}

Schema max_tokens_schema() {
  return Schema::integer(1, kMaxInt32)
      .about("Most tokens to generate; what exceeds the context is cut to it.");
}

std::vector<Parameter> sampling_parameters() {
  std::vector<Parameter> table;
  const auto add = [&](const char* name, unsigned endpoints, Schema schema,
                       void (*apply)(const Json&, GenerationParams&)) {
    table.push_back({name, std::move(schema), endpoints, apply});
  };
  add("temperature", kEveryEndpoint,
      Schema::number(0, 2).about("0 is greedy: the most likely token, lowest id on ties."),
      [](const Json& v, GenerationParams& p) { p.sampling.temperature = v; });
  add("top_p", kEveryEndpoint,
      Schema::number(0, 1).above(0).about("Keeps the likeliest tokens that together reach it."),
      [](const Json& v, GenerationParams& p) { p.sampling.top_p = v; });
  add("top_k", kEveryEndpoint,
      Schema::integer(-1, kMaxInt32).about("Keeps the k likeliest tokens; 0 or -1 keeps all."),
      [](const Json& v, GenerationParams& p) { p.sampling.top_k = int32_of(v); });
  add("min_p", kEveryEndpoint,
      Schema::number(0, 1).about("Drops tokens less likely than this share of the likeliest."),
      [](const Json& v, GenerationParams& p) { p.sampling.min_p = v; });
  add("presence_penalty", kEveryEndpoint, Schema::number(-2, 2),
      [](const Json& v, GenerationParams& p) { p.sampling.presence_penalty = v; });
  add("frequency_penalty", kEveryEndpoint, Schema::number(-2, 2),
      [](const Json& v, GenerationParams& p) { p.sampling.frequency_penalty = v; });
  add("repetition_penalty", kEveryEndpoint,
      Schema::number(0.001, 1000).about("Over prompt and answer; 1 changes nothing."),
      [](const Json& v, GenerationParams& p) { p.sampling.repetition_penalty = v; });
  add("seed", kEveryEndpoint,
      Schema::integer(-0x1p63, 0x1p64)
          .about("Equal seeds give equal bytes. Choice i uses seed + i. Drawn if absent; the "
                 "answer says which was used."),
      [](const Json& v, GenerationParams& p) { p.sampling.seed = seed_of(v); });
  add("logit_bias", kChat | kCompletions,
      Schema::map(Schema::number(-100, 100)).about("Token id (as a string) to bias."),
      set_logit_bias);
  add("stop", kChat | kCompletions | kResponses,
      Schema::any_of({Schema::string(), Schema::array(Schema::string(), 0, kMaxStops)})
          .about("Texts that end the answer; they are not part of it."),
      set_stop);
  add("stop_sequences", kMessages, Schema::array(Schema::string(), 0, kMaxStops), set_stop);
  add("stop_token_ids", kEveryEndpoint, Schema::array(Schema::integer(0, kMaxInt32), 0, 1024),
      [](const Json& v, GenerationParams& p) {
        for (const Json& id : v) p.sampling.stop_token_ids.push_back(int32_of(id));
      });
  add("ignore_eos", kEveryEndpoint, Schema::boolean(),
      [](const Json& v, GenerationParams& p) { p.sampling.ignore_eos = v; });
  add("min_tokens", kEveryEndpoint, Schema::integer(0, kMaxInt32),
      [](const Json& v, GenerationParams& p) { p.sampling.min_tokens = int32_of(v); });
  add("include_stop_str_in_output", kEveryEndpoint, Schema::boolean(),
      [](const Json& v, GenerationParams& p) { p.sampling.include_stop = v; });
  add("skip_special_tokens", kEveryEndpoint, Schema::boolean(),
      [](const Json& v, GenerationParams& p) { p.sampling.skip_special_tokens = v; });
  return table;
}

void add_answer_parameters(std::vector<Parameter>* table) {
  const auto add = [&](const char* name, unsigned endpoints, Schema schema,
                       void (*apply)(const Json&, GenerationParams&)) {
    table->push_back({name, std::move(schema), endpoints, apply});
  };
  const auto limit = [](const Json& v, GenerationParams& p) { p.max_tokens = v.get<double>(); };
  add("max_tokens", kChat, max_tokens_schema(), limit);
  add("max_completion_tokens", kChat, max_tokens_schema(), limit);  // wins over max_tokens
  add("max_tokens", kCompletions,
      Schema::integer(0, kMaxInt32).about("Default 16. 0 with echo gives the prompt only."), limit);
  add("max_output_tokens", kResponses, max_tokens_schema(), limit);
  add("n", kChat | kCompletions, Schema::integer(1, kMaxChoices).about("Choices per prompt."),
      [](const Json& v, GenerationParams& p) { p.n = int32_of(v); });
  add("stream", kEveryEndpoint, Schema::boolean(),
      [](const Json& v, GenerationParams& p) { p.stream = v; });
  add("stream_options", kChat | kCompletions,
      Schema::object(
          {{"include_usage", Schema::boolean()}, {"continuous_usage_stats", Schema::boolean()}}),
      set_stream_options);
  add("logprobs", kChat, Schema::boolean(),
      [](const Json& v, GenerationParams& p) { p.logprobs = v; });
  add("top_logprobs", kChat | kResponses, Schema::integer(0, kMaxTopLogprobs),
      [](const Json& v, GenerationParams& p) { p.top_logprobs = int32_of(v); });
  add("logprobs", kCompletions,
      Schema::integer(0, kMaxTopLogprobs).about("How many alternatives per token."),
      [](const Json& v, GenerationParams& p) {
        p.logprobs = true;
        p.top_logprobs = int32_of(v);
      });
  add("echo", kCompletions, Schema::boolean().about("The prompt comes before the answer."),
      [](const Json& v, GenerationParams& p) { p.echo = v; });
  add("add_special_tokens", kCompletions, Schema::boolean().about("BOS before text prompts."),
      [](const Json& v, GenerationParams& p) { p.add_special_tokens = v; });
  add("parallel_tool_calls", kChat | kResponses,
      Schema::boolean().about("false: one call per answer at most."),
      [](const Json& v, GenerationParams& p) { p.parallel_tool_calls = v; });
  add("return_token_ids", kChat | kCompletions, Schema::boolean(),
      [](const Json& v, GenerationParams& p) { p.return_token_ids = v; });
  add("return_tokens_as_token_ids", kChat | kCompletions, Schema::boolean(),
      [](const Json& v, GenerationParams& p) { p.tokens_as_ids = v; });
  add("priority", kEveryEndpoint,
      Schema::integer(-kMaxInt32, kMaxInt32).about("Lower runs earlier."),
      [](const Json& v, GenerationParams& p) { p.priority = int32_of(v); });
  add("cache_salt", kEveryEndpoint,
      Schema::string().nonempty().about("Requests share cached prefixes only with equal salts."),
      [](const Json& v, GenerationParams& p) { p.cache_salt = v; });
}

}  // namespace

const std::vector<Parameter>& generation_parameters() {
  static const std::vector<Parameter> table = [] {
    std::vector<Parameter> all = sampling_parameters();
    add_answer_parameters(&all);
    return all;
  }();
  return table;
}

std::vector<Field> parameter_fields(EndpointBits endpoint) {
  std::vector<Field> fields;
  for (const Parameter& parameter : generation_parameters()) {
    if (parameter.endpoints & endpoint) fields.push_back({parameter.name, parameter.schema});
  }
  return fields;
}

void apply_parameters(const Json& body, EndpointBits endpoint, GenerationParams* out) {
  for (const Parameter& parameter : generation_parameters()) {
    if (!(parameter.endpoints & endpoint)) continue;
    const auto found = body.find(parameter.name);
    if (found != body.end() && !found->is_null()) parameter.apply(*found, *out);
  }
}

ApiResult<void> check_together(const GenerationParams& params) {
  if (params.max_tokens && *params.max_tokens > 0 &&
      params.sampling.min_tokens > *params.max_tokens) {
    return fail("min_tokens", fmt::format("min_tokens is {}; it must be at most max_tokens ({}).",
                                          params.sampling.min_tokens, *params.max_tokens));
  }
  for (const auto& [id, bias] : params.sampling.logit_bias) {
    if (id < 0) {
      return fail("logit_bias",
                  "logit_bias has a key that is no token id; keys are ids written as strings, "
                  "\"123\".");
    }
  }
  return {};
}

}  // namespace fathom::api
