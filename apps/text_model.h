// Finds a model's folder for the commands that need its texts only (tokenizer, chat template).
#pragma once

#include <filesystem>
#include <string>

#include "core/status.h"

namespace fathom::apps {

// As resolve_model(), but a folder that holds a tokenizer or a chat template needs no config.json.
Result<std::filesystem::path> resolve_text_model(const std::string& model);

}  // namespace fathom::apps
