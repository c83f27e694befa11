// Reads the parts of a model folder that are about text; weights are not needed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/status.h"
#include "text/chat_template.h"

namespace fathom {

// The template in `file`, or the folder's own if `file` is empty; nullopt if it has none.
Result<std::optional<ChatTemplate>> load_chat_template(const std::filesystem::path& model_dir,
                                                       const std::string& file);

}  // namespace fathom
