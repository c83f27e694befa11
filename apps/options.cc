// Declares the shared options and turns them into the engine's structs.
#include "apps/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

namespace fathom::apps {
namespace {

const std::map<std::string, kernels::Isa>& isa_names() {
  static const std::map<std::string, kernels::Isa> names = {{"auto", kernels::best_isa()},
                                                            {"scalar", kernels::Isa::kScalar},
                                                            {"avx2", kernels::Isa::kAvx2},
                                                            {"avx512", kernels::Isa::kAvx512}};
  return names;
}

std::string check_isa(const std::string& name) {
  const auto found = isa_names().find(name);
  if (found == isa_names().end()) return "must be auto, scalar, avx2 or avx512, not " + name;
  if (!kernels::isa_supported(found->second)) return "this processor has no " + name;
  return "";
}

std::string check_override(const std::string& text) {
  const size_t equals = text.find('=');
  return equals == std::string::npos || equals == 0 ? "expected key=value, not " + text : "";
}

// The parser would wrap a negative or too large number around.
std::string check_unsigned(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ec == std::errc() && read.ptr == end
             ? ""
             : "must be an integer from 0 to 2^64-1, not " + text;
}

// A size with an optional unit: the number in front of the unit has the same trouble.
std::string check_size(const std::string& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string wrong = check_unsigned(text.substr(0, digits));
  return wrong.empty() ? "" : "must be a size such as 512MiB, not " + text;
}

// "id=value" of --logit-bias; nullopt if it is not that.
std::optional<std::pair<int32_t, float>> parse_bias(const std::string& text) {
  std::pair<int32_t, float> bias{0, 0};
  const char* end = text.data() + text.size();
  const auto id = std::from_chars(text.data(), end, bias.first);
  if (id.ec != std::errc() || id.ptr == end || *id.ptr != '=' || bias.first < 0) return {};
  const auto value = std::from_chars(id.ptr + 1, end, bias.second);
  if (value.ec != std::errc() || value.ptr != end || std::isnan(bias.second)) return {};
  return bias;
}

std::string check_bias(const std::string& text) {
  return parse_bias(text) ? "" : "expected id=value (an id from 0 and a number), not " + text;
}

// Checks like CLI::Range, with bounds that may be excluded.
CLI::Validator number_from(double low, double high, bool low_allowed, std::string name) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        double value = 0;
        const bool number = CLI::detail::lexical_cast(text, value);
        const bool inside = number && (low_allowed ? value >= low : value > low) && value <= high;
        return inside ? "" : fmt::format("must be {}, not {}", name, text);
      },
      name);
}

constexpr double kNoLimit = std::numeric_limits<double>::max();
constexpr int32_t kMaxInt32 = std::numeric_limits<int32_t>::max();

}  // namespace

void add_config_override(CLI::App& command, std::vector<std::string>& overrides) {
  command
      .add_option("--config-override", overrides,
                  "Change one key of config.json (value in JSON), e.g. n_routed_experts=8")
      ->check(CLI::Validator(check_override, "KEY=VALUE"))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Model options");
}

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  command
      .add_option("MODEL", flags.model,
                  "Model folder, path in the Hugging Face cache, or org/name[@revision]")
      ->required();
  const auto group = "Model options";
  command
      .add_option("--threads", flags.threads, "Threads; 0 = one per processor. No effect on bits")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--isa", flags.isa,
                  "Instruction set: auto, scalar, avx2, avx512. All give the same bits")
      ->check(CLI::Validator(check_isa, "ISA"))
      ->capture_default_str()
      ->group(group);
  command.add_option("--kv-dtype", flags.kv_dtype, "Element type of the KV cache")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--load-format", flags.load_format,
                  "auto: the folder's weights; dummy: random ones, only config.json is needed")
      ->check(CLI::IsMember({"auto", "dummy"}))
      ->capture_default_str()
      ->group(group);
  add_config_override(command, flags.config_overrides);
  command
      .add_flag("--mmap", flags.mmap,
                "Map the weight files instead of reading them into memory (slower to run)")
      ->group(group);
}

ModelOptions model_options(const ModelFlags& flags) {
  ModelOptions options;
  options.threads = flags.threads;
  options.isa = isa_names().at(flags.isa);
  options.kv_dtype = flags.kv_dtype == "bf16" ? DType::kBF16 : DType::kF32;
  options.dummy_weights = flags.load_format == "dummy";
  options.mmap = flags.mmap;
  for (const std::string& text : flags.config_overrides) {
    const size_t equals = text.find('=');
    options.config_overrides.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return options;
}

CLI::Option* add_size_option(CLI::App& command, const std::string& name, uint64_t& value,
                             const std::string& text) {
  return command.add_option(name, value, text)
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator(check_size, ""));  // runs before the one above
}

CLI::Option* add_seed_option(CLI::App& command, std::optional<uint64_t>& seed,
                             const std::string& text) {
  return command.add_option("--seed", seed, text)
      ->check(CLI::Validator(check_unsigned, "a number from 0"));
}

void add_engine_flags(CLI::App& command, EngineFlags& flags) {
  add_model_flags(command, flags.model);
  const auto group = "Engine options";
  command.add_option("--block-size", flags.block_size, "Tokens per KV page")
      ->check(CLI::IsMember({8, 16, 32, 64, 128}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--max-model-len", flags.max_model_len,
                  "Tokens of prompt and answer together; 0 = the model's, memory allowing")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str()
      ->group(group);
  add_size_option(command, "--kv-memory", flags.kv_memory,
                  "Memory for the KV cache, e.g. 2GiB; 0 = from free memory")
      ->group(group);
}

EngineOptions engine_options(const EngineFlags& flags) {
  EngineOptions options;
  options.model = model_options(flags.model);
  options.block_size = flags.block_size;
  options.max_model_len = flags.max_model_len;
  options.kv_memory_bytes = flags.kv_memory;
  return options;
}

void add_sampling_flags(CLI::App& command, SamplingFlags& flags) {
  const auto group = "Sampling options (defaults: generation_config.json)";
  const auto option = [&](const char* name, auto& value, const char* text) {
    return command.add_option(name, value, text)->group(group);
  };
  option("--temperature", flags.temperature, "0 = greedy")
      ->check(number_from(0, 100, true, "a number from 0 to 100"));
  option("--top-p", flags.top_p, "Keep the likeliest tokens that sum to this")
      ->check(number_from(0, 1, false, "a number above 0, up to 1"));
  option("--top-k", flags.top_k, "Keep the k likeliest tokens; 0 or -1 = all")
      ->check(CLI::Range(-1, kMaxInt32));
  option("--min-p", flags.min_p, "Keep tokens at least this likely, relative to the best")
      ->check(number_from(0, 1, true, "a number from 0 to 1"));
  option("--repetition-penalty", flags.repetition_penalty, "Over prompt and answer; 1 = none")
      ->check(number_from(0, kNoLimit, false, "a number above 0"));
  option("--presence-penalty", flags.presence_penalty, "Over the answer; 0 = none")
      ->check(number_from(-2, 2, true, "a number from -2 to 2"));
  option("--frequency-penalty", flags.frequency_penalty, "Over the answer; 0 = none")
      ->check(number_from(-2, 2, true, "a number from -2 to 2"));
  add_seed_option(command, flags.seed,
                  "Makes sampling repeatable; without it one is drawn and reported")
      ->group(group);
  option("--max-tokens", flags.max_tokens, "Longest answer; without it, up to the context length")
      ->check(CLI::Range(1, kMaxInt32));
  option("--min-tokens", flags.min_tokens, "Stops are ignored before that many tokens")
      ->check(CLI::Range(0, kMaxInt32));
  option("--stop", flags.stop, "Text that ends the answer; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  option("--stop-token-id", flags.stop_token_ids, "Token id that ends the answer; may be repeated")
      ->check(CLI::Range(0, kMaxInt32))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  option("--logit-bias", flags.logit_bias, "id=value: added to a token's logit; may be repeated")
      ->check(CLI::Validator(check_bias, "ID=VALUE"))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--ignore-eos", flags.ignore_eos, "Go on after the end-of-sequence token")
      ->group(group);
}

void check_sampling_flags(const SamplingFlags& flags) {
  if (flags.max_tokens && flags.min_tokens > *flags.max_tokens) {
    throw CLI::ValidationError("--min-tokens", fmt::format("{} is more than --max-tokens {}",
                                                           flags.min_tokens, *flags.max_tokens));
  }
  for (const std::string& stop : flags.stop) {
    if (stop.empty()) throw CLI::ValidationError("--stop", "an empty text would always match");
  }
}

SamplingParams sampling_params(const SamplingFlags& flags, SamplingParams defaults) {
  SamplingParams params = std::move(defaults);
  const auto set = [](auto& target, const auto& flag) {
    if (flag) target = *flag;
  };
  set(params.temperature, flags.temperature);
  set(params.top_p, flags.top_p);
  set(params.top_k, flags.top_k);
  set(params.min_p, flags.min_p);
  set(params.repetition_penalty, flags.repetition_penalty);
  set(params.presence_penalty, flags.presence_penalty);
  set(params.frequency_penalty, flags.frequency_penalty);
  set(params.max_tokens, flags.max_tokens);
  if (flags.seed) params.seed = flags.seed;
  if (flags.min_tokens > 0) params.min_tokens = flags.min_tokens;
  params.stop.insert(params.stop.end(), flags.stop.begin(), flags.stop.end());
  params.stop_token_ids.insert(params.stop_token_ids.end(), flags.stop_token_ids.begin(),
                               flags.stop_token_ids.end());
  for (const std::string& text : flags.logit_bias) params.logit_bias.push_back(*parse_bias(text));
  params.ignore_eos = params.ignore_eos || flags.ignore_eos;
  return params;
}

}  // namespace fathom::apps
