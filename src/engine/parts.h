// EngineParts: what Engine::open() reads from a folder, ready to be assembled.
#pragma once

#include <memory>
#include <string>

#include "engine/generation_config.h"
#include "engine/step_model.h"
#include "text/tokenizer.h"

namespace fathom {

class ChatTemplate;

struct EngineParts {
  std::string name;
  std::unique_ptr<StepModel> model;
  std::unique_ptr<Tokenizer> tokenizer;               // nullptr: ids only
  std::shared_ptr<const ChatTemplate> chat_template;  // nullptr: none
  GenerationConfig generation;
};

}  // namespace fathom
