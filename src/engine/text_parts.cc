// Chat templates from a folder or from a file of the user's.
#include "engine/text_parts.h"

#include <utility>

#include "core/file.h"

namespace fathom {

Result<std::optional<ChatTemplate>> load_chat_template(const std::filesystem::path& model_dir,
                                                       const std::string& file) {
  if (file.empty()) {
    Result<ChatTemplate> own = ChatTemplate::load(model_dir);
    if (own) return std::move(*own);
    if (own.error().code() == Code::kNotFound) return std::nullopt;
    return error(own.error());
  }
  constexpr uint64_t kMaxBytes = uint64_t{16} << 20;  // real ones have a few thousand bytes
  FATHOM_ASSIGN(std::string source, read_text_file(file, kMaxBytes));
  FATHOM_ASSIGN(const nlohmann::ordered_json tokens, ChatTemplate::load_special_tokens(model_dir));
  Result<ChatTemplate> given = ChatTemplate::from_source(std::move(source), tokens);
  if (!given) return error(given.error().with_context(file));
  return std::move(*given);
}

}  // namespace fathom
