// The table of parameters that shape an answer: name, form, meaning and where each one goes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "http/api/schema.h"
#include "types/sampling_params.h"

namespace fathom::api {

inline constexpr int kMaxChoices = 128;     // n
inline constexpr int kMaxTopLogprobs = 20;  // OpenAI's limit
inline constexpr size_t kMaxStops = 16;     // stop strings

// What a request asks for, whichever endpoint it came through.
struct GenerationParams {
  SamplingParams sampling;
  std::optional<int64_t> max_tokens;  // as given; cut to the context later. 0: the prompt only
  int n = 1;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // usage so far in every chunk
  bool logprobs = false;
  int top_logprobs = 0;
  bool echo = false;
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // "token_id:123" instead of text in logprobs
  bool add_special_tokens = true;
  bool parallel_tool_calls = true;
  int32_t prompt_logprobs = -1;
  int priority = 0;
  std::string cache_salt;
};

// Endpoints that a parameter belongs to.
enum EndpointBits : unsigned {
  kChat = 1,
  kCompletions = 2,
  kResponses = 4,
  kMessages = 8,
  kEveryEndpoint = 15,
};

struct Parameter {
  std::string name;
  Schema schema;
  unsigned endpoints;
  void (*apply)(const Json& value, GenerationParams& out);  // the value has passed the schema
};

const std::vector<Parameter>& generation_parameters();
// The fields of the table that belong to an endpoint, to be put into the schema of its body.
std::vector<Field> parameter_fields(EndpointBits endpoint);
// Applies what the body (checked before) gives, in the table's order.
void apply_parameters(const Json& body, EndpointBits endpoint, GenerationParams* out);
// Rules that concern several parameters.
ApiResult<void> check_together(const GenerationParams& params);

}  // namespace fathom::api
