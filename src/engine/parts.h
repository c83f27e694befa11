// EngineParts: what Engine::open() reads from a folder, ready to be assembled.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/generation_config.h"
#include "engine/step_model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace fathom {

struct EngineParts {
  std::string name;
  std::unique_ptr<StepModel> model;
  std::unique_ptr<Tokenizer> tokenizer;  // nullptr: ids only
  std::optional<ChatTemplate> chat_template;
  GenerationConfig generation;
};

}  // namespace fathom
