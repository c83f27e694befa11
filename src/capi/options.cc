// JSON options to plain structures, with every key checked.
#include "capi/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "core/json_shape.h"

namespace fathom::capi {

namespace {

// Reads one flat JSON object: each field is taken once by name, and finish() refuses the rest.
class Fields {
 public:
  Fields(const char* json, const char* what) : what_(what) {
    if (json == nullptr || *json == '\0') {
      object_ = Json::object();
      return;
    }
    const Status shape = check_json_shape(json);
    if (!shape.ok()) {
      status_ = shape.with_context(what_);
      return;
    }
    object_ = Json::parse(json, nullptr, /*allow_exceptions=*/false);
    if (!object_.is_object()) fail(fmt::format("{} is not a JSON object.", what_));
  }

  // The value of a key, or nullptr if it is absent or null.
  const Json* take(const char* key) {
    known_.push_back(key);
    if (!status_.ok()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  template <typename T>
  void integer(const char* key, T* out, int64_t low = std::numeric_limits<int32_t>::min(),
               int64_t high = std::numeric_limits<int32_t>::max()) {
    const Json* value = take(key);
    if (value == nullptr) return;
    const bool in_range = value->is_number_unsigned()
                              ? value->get<uint64_t>() <= static_cast<uint64_t>(high)
                              : value->is_number_integer() && value->get<int64_t>() >= low &&
                                    value->get<int64_t>() <= high;
    if (!in_range) return wrong(key, *value, fmt::format("an integer from {} to {}", low, high));
    *out = value->get<T>();
  }

  void number(const char* key, double* out) {
    const Json* value = take(key);
    if (value == nullptr) return;
    if (!value->is_number()) return wrong(key, *value, "a number");
    *out = value->get<double>();
  }

  void boolean(const char* key, bool* out) {
    const Json* value = take(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return wrong(key, *value, "true or false");
    *out = value->get<bool>();
  }

  void text(const char* key, std::string* out) {
    const Json* value = take(key);
    if (value == nullptr) return;
    if (!value->is_string()) return wrong(key, *value, "a string");
    *out = value->get<std::string>();
  }

  void wrong(const char* key, const Json& value, const std::string& expected) {
    fail(fmt::format("{}: {} is {}; it must be {}.", what_, key, dump(value).substr(0, 100),
                     expected));
  }

  Status finish() {
    if (!status_.ok()) return status_;
    for (const auto& [key, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        return Status(Code::kInvalidArgument,
                      fmt::format("{}: unknown key \"{}\"; known are {}.", what_,
                                  key.substr(0, 100), fmt::join(known_, ", ")));
      }
    }
    return Status();
  }

 private:
  void fail(std::string message) {
    if (status_.ok()) status_ = Status(Code::kInvalidArgument, std::move(message));
  }

  const char* what_;
  Json object_;
  std::vector<std::string> known_;
  Status status_;
};

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

void read_isa(Fields* fields, ModelOptions* options) {
  std::string isa = "auto";
  fields->text("isa", &isa);
  if (isa == "auto") return;
  for (const kernels::Isa candidate :
       {kernels::Isa::kScalar, kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
    if (isa != kernels::isa_name(candidate)) continue;
    if (!kernels::isa_supported(candidate)) {
      return fields->wrong("isa", isa, "one that this processor has");
    }
    options->isa = candidate;
    return;
  }
  fields->wrong("isa", isa, "\"auto\", \"scalar\", \"avx2\" or \"avx512\"");
}

void read_model_options(Fields* fields, ModelOptions* options) {
  fields->integer("threads", &options->threads, 0, 4096);
  read_isa(fields, options);
  std::string kv_dtype = "float32";
  fields->text("kv_dtype", &kv_dtype);
  if (kv_dtype == "bfloat16") {
    options->kv_dtype = DType::kBF16;
  } else if (kv_dtype != "float32") {
    fields->wrong("kv_dtype", kv_dtype, "\"float32\" or \"bfloat16\"");
  }
  std::string load_format = "auto";
  fields->text("load_format", &load_format);
  options->dummy_weights = load_format == "dummy";
  if (load_format != "auto" && load_format != "dummy") {
    fields->wrong("load_format", load_format, "\"auto\" or \"dummy\"");
  }
  fields->boolean("mmap", &options->mmap);
  if (const Json* overrides = fields->take("config_override")) {
    if (!overrides->is_object()) return fields->wrong("config_override", *overrides, "an object");
    for (const auto& [key, value] : overrides->items()) {
      options->config_overrides.emplace_back(key, dump(value));
    }
  }
}

void read_logit_bias(Fields* fields, SamplingParams* sampling) {
  const Json* bias = fields->take("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) return fields->wrong("logit_bias", *bias, "an object {\"id\": bias}");
  sampling->logit_bias.clear();
  for (const auto& [key, value] : bias->items()) {
    char* end = nullptr;
    const long id = std::strtol(key.c_str(), &end, 10);
    if (key.empty() || *end != '\0' || !value.is_number() || id < 0 ||
        id > std::numeric_limits<int32_t>::max()) {
      return fields->wrong("logit_bias", *bias, "an object {\"id\": bias}");
    }
    sampling->logit_bias.emplace_back(static_cast<int32_t>(id), value.get<float>());
  }
}

void read_stops(Fields* fields, SamplingParams* sampling) {
  if (const Json* stop = fields->take("stop")) {
    const Json list = stop->is_string() ? Json::array({*stop}) : *stop;
    sampling->stop.clear();
    if (!list.is_array()) return fields->wrong("stop", *stop, "a string or a list of strings");
    for (const Json& text : list) {
      if (!text.is_string()) return fields->wrong("stop", *stop, "a string or a list of strings");
      sampling->stop.push_back(text.get<std::string>());
    }
  }
  if (const Json* ids = fields->take("stop_token_ids")) {
    sampling->stop_token_ids.clear();
    if (!ids->is_array()) return fields->wrong("stop_token_ids", *ids, "a list of token ids");
    for (const Json& id : *ids) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
          id.get<int64_t>() > std::numeric_limits<int32_t>::max()) {
        return fields->wrong("stop_token_ids", *ids, "a list of token ids");
      }
      sampling->stop_token_ids.push_back(id.get<int32_t>());
    }
  }
}

}  // namespace

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status parse_engine_options(const char* json, EngineOptions* options) {
  Fields fields(json, "options_json");
  fields.integer("max_num_seqs", &options->max_num_seqs);
  fields.integer("max_num_batched_tokens", &options->max_num_batched_tokens);
  fields.integer("block_size", &options->block_size);
  fields.integer("kv_memory_bytes", &options->kv_memory_bytes, 0, kMaxInt64);
  fields.integer("max_model_len", &options->max_model_len, 0, kMaxInt64);
  fields.integer("max_queued_requests", &options->max_queued_requests);
  fields.boolean("prefix_caching", &options->prefix_caching);
  fields.number("request_timeout_seconds", &options->request_timeout_seconds);
  fields.text("chat_template", &options->chat_template_file);
  read_model_options(&fields, &options->model);
  return fields.finish();
}

Status parse_model_options(const char* json, ModelOptions* options) {
  Fields fields(json, "options_json");
  read_model_options(&fields, options);
  return fields.finish();
}

Status parse_sampling(const char* json, Request* request, std::string* response_format) {
  SamplingParams* sampling = &request->sampling;
  Fields fields(json, "sampling_json");
  fields.number("temperature", &sampling->temperature);
  fields.number("top_p", &sampling->top_p);
  fields.integer("top_k", &sampling->top_k);
  fields.number("min_p", &sampling->min_p);
  fields.number("repetition_penalty", &sampling->repetition_penalty);
  fields.number("presence_penalty", &sampling->presence_penalty);
  fields.number("frequency_penalty", &sampling->frequency_penalty);
  uint64_t seed = 0;
  if (const Json* given = fields.take("seed")) {
    if (!given->is_number_integer()) {
      fields.wrong("seed", *given, "an integer");
    } else {
      // Negative seeds, which other servers accept, are the same 64 bits.
      seed = given->is_number_unsigned() ? given->get<uint64_t>()
                                         : static_cast<uint64_t>(given->get<int64_t>());
      sampling->seed = seed;
    }
  }
  read_logit_bias(&fields, sampling);
  fields.integer("max_tokens", &sampling->max_tokens);
  fields.integer("min_tokens", &sampling->min_tokens);
  read_stops(&fields, sampling);
  fields.boolean("ignore_eos", &sampling->ignore_eos);
  fields.boolean("include_stop", &sampling->include_stop);
  fields.boolean("skip_special_tokens", &sampling->skip_special_tokens);
  fields.integer("logprobs", &sampling->logprobs);
  fields.integer("prompt_logprobs", &request->prompt_logprobs);
  if (const Json* format = fields.take("response_format")) *response_format = dump(*format);
  return fields.finish();
}

Json sampling_json(const SamplingParams& sampling) {
  return {{"temperature", sampling.temperature},
          {"top_p", sampling.top_p},
          {"top_k", sampling.top_k},
          {"min_p", sampling.min_p},
          {"repetition_penalty", sampling.repetition_penalty},
          {"presence_penalty", sampling.presence_penalty},
          {"frequency_penalty", sampling.frequency_penalty}};
}

}  // namespace fathom::capi
