// Finds the folder of a model that the user names by path or by its Hugging Face name.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/status.h"

namespace fathom {

// The folder that holds the config.json of `model`, which is one of
//   a folder with a config.json (`~` at the start is expanded);
//   a `models--org--name` folder of a Hugging Face cache, or its snapshots/ or one snapshot in it;
//   `org/name` or `org/name@revision`, looked up in the Hugging Face cache. Where that is decided
//   as the huggingface_hub library does: HF_HUB_CACHE, else HF_HOME/hub, else
//   XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub. A revision is a branch, a tag, a
//   ref such as refs/pr/3, or the beginning of a snapshot's commit hash. Without one: refs/main,
//   else the newest snapshot.
// Nothing is ever downloaded. Errors name every place looked at and say what to do.
// Thread-safe as long as nobody changes the environment.
Result<std::filesystem::path> resolve_model(std::string_view model);

}  // namespace fathom
