// The family members that config.cc can choose from: one builder each, one file each.
//
// A builder reads the keys of its architecture and fills everything of ModelConfig but the
// architecture's name. Problems go to the reader; after one the config's values are meaningless.
#pragma once

#include "model/config/reader.h"
#include "types/model_config.h"

namespace fathom::config {

void build_llama(ConfigReader& reader, ModelConfig& config);
void build_qwen2(ConfigReader& reader, ModelConfig& config);
void build_deepseek(ConfigReader& reader, ModelConfig& config);
void build_deepseek_v2(ConfigReader& reader, ModelConfig& config);
void build_deepseek_v3(ConfigReader& reader, ModelConfig& config);

}  // namespace fathom::config
