// Accepts folders that hold a tokenizer or chat template but no model.
#include "apps/text_model.h"

#include "weights/resolve.h"

namespace fathom::apps {

Result<std::filesystem::path> resolve_text_model(const std::string& model) {
  std::error_code ignored;
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    if (std::filesystem::is_regular_file(std::filesystem::path(model) / file, ignored)) {
      return std::filesystem::path(model);
    }
  }
  return resolve_model(model);
}

}  // namespace fathom::apps
