// Renders conversations with the model's own template, byte for byte as transformers does.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/status.h"

namespace fathom {

namespace jinja {
class Template;
}

// A conversation and everything else a template may ask for.
struct Conversation {
  nlohmann::ordered_json messages;         // array of objects with "role"
  nlohmann::ordered_json tools = nullptr;  // null or array of objects
  nlohmann::ordered_json kwargs = nlohmann::ordered_json::object();
  // kwargs: add_generation_prompt (default false), continue_final_message (bool, or the name of the
  // field to continue), documents, thinking, and any other template variable; they win over the
  // special tokens.
};

// The chat template of one model. Immutable after load; safe from several threads.
class ChatTemplate {
 public:
  // From chat_template.jinja (and additional_chat_templates/*.jinja), or else the "chat_template"
  // of tokenizer_config.json (text, or a list of {name, template}); special tokens from
  // tokenizer_config.json and special_tokens_map.json. kNotFound if the folder has no template.
  static Result<ChatTemplate> load(const std::filesystem::path& model_dir);
  // A template given as text. special_tokens: {"bos_token": "...", ...}; a token may also be an
  // object with "content".
  static Result<ChatTemplate> from_source(std::string source,
                                          const nlohmann::ordered_json& special_tokens);
  // The special tokens of a model folder as from_source takes them; empty if it states none.
  static Result<nlohmann::ordered_json> load_special_tokens(const std::filesystem::path& model_dir);

  Result<std::string> render(const Conversation& conversation) const;

  // The text of the template that render uses when tools are, or are not, given.
  const std::string& source(bool with_tools) const { return choose(with_tools).source; }

 private:
  struct Entry {
    std::string source;
    std::shared_ptr<const jinja::Template> parsed;
  };

  static Result<ChatTemplate> from_sources(const std::map<std::string, std::string>& sources,
                                           nlohmann::ordered_json special_tokens);
  const Entry& choose(bool with_tools) const;

  std::map<std::string, Entry, std::less<>> templates_;  // by name; "default" is always there
  nlohmann::ordered_json special_tokens_;                // name → text
};

}  // namespace fathom
