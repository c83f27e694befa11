// What generation_config.json says: the model's own sampling defaults and end-of-sequence ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "text/tokenizer.h"
#include "types/model_config.h"
#include "types/sampling_params.h"

namespace fathom {

struct GenerationConfig {
  SamplingParams sampling;             // built-in defaults where the file says nothing
  std::vector<int32_t> eos_token_ids;  // eos_token_id, a number or a list
};

// Reads temperature, top_p, top_k, min_p, repetition_penalty, do_sample (false: temperature 0) and
// eos_token_id. An absent file gives the built-in defaults; a damaged one is refused.
Result<GenerationConfig> read_generation_config(const std::filesystem::path& model_dir);
Result<GenerationConfig> parse_generation_config(std::string_view json);

// Ids that end an answer, ascending: those of config.json and generation_config.json and the
// tokenizer's eos. deepseek-coder (32k vocabulary) always stops at both <|EOT|> and
// <｜end▁of▁sentence｜>: its instruct configs name one or the other. Configs circulate with
// eos_token_id 2 left from Llama's defaults: with a tokenizer, ids that it does not list as added
// tokens are dropped.
std::vector<int32_t> collect_stop_ids(const ModelConfig& config, const GenerationConfig& generation,
                                      const Tokenizer* tokenizer);

}  // namespace fathom
