// generation_config.json and the ids that end an answer.
#include "engine/generation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/json_shape.h"

namespace fathom {

namespace {

using Json = nlohmann::json;

Status wrong(const char* key, const Json& value, const char* expected) {
  return Status(
      Code::kCorrupt,
      fmt::format("generation_config.json: {} is {}; it must be {}.", key,
                  value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 100),
                  expected));
}

Status read_number(const Json& object, const char* key, double low, double high, double* out) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return Status();
  if (!found->is_number()) return wrong(key, *found, "a number");
  const double value = found->get<double>();
  if (!(value >= low && value <= high)) {
    return wrong(key, *found, fmt::format("between {} and {}", low, high).c_str());
  }
  *out = value;
  return Status();
}

Status read_eos(const Json& object, std::vector<int32_t>* ids) {
  const auto found = object.find("eos_token_id");
  if (found == object.end() || found->is_null()) return Status();
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) {
      return wrong("eos_token_id", *found, "a token id or a list of token ids");
    }
    ids->push_back(id.get<int32_t>());
  }
  return Status();
}

constexpr int32_t kCoderEot = 32021;
constexpr int32_t kCoderEndOfSentence = 32014;

bool is_deepseek_coder(const Tokenizer& tokenizer) {
  return tokenizer.token_id("<|EOT|>") == kCoderEot &&
         tokenizer.token_id("<｜end▁of▁sentence｜>") == kCoderEndOfSentence;
}

}  // namespace

Result<GenerationConfig> parse_generation_config(std::string_view json) {
  FATHOM_TRY(check_json_shape(json));
  const Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return error(Code::kCorrupt, "generation_config.json is not a JSON object.");
  }
  GenerationConfig config;
  SamplingParams& sampling = config.sampling;
  double top_k = sampling.top_k;
  FATHOM_TRY(read_number(object, "temperature", 0, 1000, &sampling.temperature));
  FATHOM_TRY(read_number(object, "top_p", 1e-9, 1, &sampling.top_p));
  FATHOM_TRY(read_number(object, "top_k", -1, INT32_MAX, &top_k));
  FATHOM_TRY(read_number(object, "min_p", 0, 1, &sampling.min_p));
  FATHOM_TRY(read_number(object, "repetition_penalty", 1e-3, 1e3, &sampling.repetition_penalty));
  sampling.top_k = static_cast<int32_t>(top_k);
  const auto do_sample = object.find("do_sample");
  if (do_sample != object.end() && *do_sample == false) sampling.temperature = 0;
  FATHOM_TRY(read_eos(object, &config.eos_token_ids));
  return config;
}

Result<GenerationConfig> read_generation_config(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return GenerationConfig();
  constexpr uint64_t kMaxBytes = uint64_t{1} << 20;  // real ones have a few hundred bytes
  FATHOM_ASSIGN(const std::string text, read_text_file(path, kMaxBytes));
  Result<GenerationConfig> config = parse_generation_config(text);
  if (!config) return error(config.error().with_context(path.parent_path().string()));
  return config;
}

std::vector<int32_t> collect_stop_ids(const ModelConfig& config, const GenerationConfig& generation,
                                      const Tokenizer* tokenizer) {
  std::vector<int32_t> ids(config.eos_token_ids);
  ids.insert(ids.end(), generation.eos_token_ids.begin(), generation.eos_token_ids.end());
  if (tokenizer != nullptr) {
    std::erase_if(ids, [&](int32_t id) { return !tokenizer->is_added(id); });
    if (const auto eos = tokenizer->eos_id()) ids.push_back(*eos);
    if (is_deepseek_coder(*tokenizer)) ids.insert(ids.end(), {kCoderEot, kCoderEndOfSentence});
  }
  std::erase_if(ids, [&](int32_t id) { return id < 0 || id >= config.vocab_size; });
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace fathom
