// Reads config.json of a model folder into a validated ModelConfig, or says what it cannot accept.
//
// JSON stops here: nobody above sees a key. Pure functions, callable from any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"
#include "types/model_config.h"

namespace fathom {

// Replacements applied to the JSON before it is read: (dotted key, JSON value; what is not JSON
// counts as a string). "rope_scaling.factor" reaches into an object.
using ConfigOverrides = std::vector<std::pair<std::string, std::string>>;

// Every problem is listed in one message that names the key, what was found and what is known.
// kNotFound without a config.json, kUnsupported for an architecture that this build does not know,
// kInvalidArgument otherwise.
Result<ModelConfig> read_config(const std::filesystem::path& model_dir,
                                const ConfigOverrides& overrides = {});

// The same for the text of a config.json; `source` names it in messages.
Result<ModelConfig> parse_config(std::string_view text, const std::string& source,
                                 const ConfigOverrides& overrides = {});

}  // namespace fathom
