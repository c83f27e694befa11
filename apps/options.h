// Options that several commands share: the model, how it is loaded and run, how tokens are sampled.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/model.h"
#include "types/sampling_params.h"

namespace fathom::apps {

// How the model is loaded and run. Filled by the parser, valid after it.
struct ModelFlags {
  std::string model;
  int threads = 0;
  std::string isa = "auto";
  std::string kv_dtype = "f32";
  std::string load_format = "auto";
  std::vector<std::string> config_overrides;  // "key=value"
  bool mmap = false;
};
// --config-override key=value, repeatable.
void add_config_override(CLI::App& command, std::vector<std::string>& overrides);
// MODEL and --threads, --isa, --kv-dtype, --load-format, --config-override, --mmap.
void add_model_flags(CLI::App& command, ModelFlags& flags);
ModelOptions model_options(const ModelFlags& flags);

// A number of bytes with an optional unit: 512MiB.
CLI::Option* add_size_option(CLI::App& command, const std::string& name, uint64_t& value,
                             const std::string& text);
// --seed.
CLI::Option* add_seed_option(CLI::App& command, std::optional<uint64_t>& seed,
                             const std::string& text);

struct EngineFlags {
  ModelFlags model;
  int block_size = 16;
  int64_t max_model_len = 0;
  uint64_t kv_memory = 0;
};
// The above and --block-size, --max-model-len, --kv-memory.
void add_engine_flags(CLI::App& command, EngineFlags& flags);
EngineOptions engine_options(const EngineFlags& flags);

// Sampling flags that were given; the others keep the model's defaults.
struct SamplingFlags {
  std::optional<double> temperature, top_p, min_p;
  std::optional<double> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int32_t> top_k, max_tokens;
  std::optional<uint64_t> seed;
  int32_t min_tokens = 0;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  std::vector<std::string> logit_bias;  // "id=value"
  bool ignore_eos = false;
};
void add_sampling_flags(CLI::App& command, SamplingFlags& flags);
// Usage errors that concern several flags; thrown as CLI::ValidationError.
void check_sampling_flags(const SamplingFlags& flags);
SamplingParams sampling_params(const SamplingFlags& flags, SamplingParams defaults);

}  // namespace fathom::apps
