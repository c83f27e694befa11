// Engine::open: a model's name to a running engine.
#include <filesystem>
#include <utility>

#include "engine/engine.h"
#include "engine/parts.h"
#include "engine/text_parts.h"
#include "weights/resolve.h"

namespace fathom {

Result<std::unique_ptr<Engine>> Engine::open(const std::string& model,
                                             const EngineOptions& options) {
  FATHOM_ASSIGN(const std::filesystem::path folder, resolve_model(model));
  EngineParts parts;
  parts.name = model;
  // Small files first: a damaged one is reported before minutes of loading.
  FATHOM_ASSIGN(parts.generation, read_generation_config(folder));
  std::error_code ignored;
  if (std::filesystem::exists(folder / "tokenizer.json", ignored)) {
    FATHOM_ASSIGN(parts.tokenizer, Tokenizer::load(folder));
  }
  FATHOM_ASSIGN(parts.chat_template, load_chat_template(folder, options.chat_template_file));
  FATHOM_ASSIGN(std::unique_ptr<Model> loaded, Model::load(folder, options.model));
  parts.model = make_step_model(std::move(loaded));
  return assemble(std::move(parts), options);
}

}  // namespace fathom
