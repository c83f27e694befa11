// Chat templates: files, special tokens, and what transformers does around a rendering.
#include "text/chat_template.h"

#include <algorithm>
#include <utility>

#include "core/file.h"
#include "text/jinja/template.h"
#include "text/jinja/unicode.h"

namespace fathom {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxTemplateFile = uint64_t{1} << 20;
constexpr uint64_t kMaxConfigFile = uint64_t{64} << 20;  // tokenizer_config.json lists added tokens

bool file_exists(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

Result<Json> read_json(const fs::path& path) {
  FATHOM_ASSIGN(const std::string text, read_text_file(path, kMaxConfigFile));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    return error(Code::kCorrupt, path.string() + " is not a JSON object; download it again");
  }
  return json;
}

// The text of a special token: a string or an object with "content". Null for anything else.
Json token_text(const Json& token) {
  if (token.is_string()) return token;
  if (token.is_object()) {
    const auto content = token.find("content");
    if (content != token.end() && content->is_string()) return *content;
  }
  return nullptr;
}

void add_tokens(const Json& source, Json& tokens) {
  for (const auto& [name, value] : source.items()) {
    if (!name.ends_with("_token")) continue;
    if (Json text = token_text(value); !text.is_null()) tokens[name] = std::move(text);
  }
  const auto extra = source.find("extra_special_tokens");
  if (extra == source.end() || !extra->is_object()) return;
  for (const auto& [name, value] : extra->items()) {
    if (Json text = token_text(value); !text.is_null()) tokens[name] = std::move(text);
  }
}

using Sources = std::map<std::string, std::string>;

// Templates that stand in files of their own; they win over tokenizer_config.json.
Result<Sources> template_files(const fs::path& folder) {
  Sources sources;
  if (file_exists(folder / "chat_template.jinja")) {
    FATHOM_ASSIGN(sources["default"],
                  read_text_file(folder / "chat_template.jinja", kMaxTemplateFile));
  }
  std::error_code code;
  for (const auto& file : fs::directory_iterator(folder / "additional_chat_templates", code)) {
    if (file.path().extension() != ".jinja" || !file_exists(file.path())) continue;
    FATHOM_ASSIGN(sources[file.path().stem().string()],
                  read_text_file(file.path(), kMaxTemplateFile));
  }
  return sources;
}

Result<Sources> configured_templates(const Json& config, const fs::path& path) {
  Sources sources;
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return sources;
  if (found->is_string()) {
    sources["default"] = found->get<std::string>();
    return sources;
  }
  const auto refuse = [&](const std::string& what) {
    return error(Code::kCorrupt, "chat_template in " + path.string() + " " + what +
                                     "; it must be a string or a list of {name, template}");
  };
  if (!found->is_array()) return refuse("is neither a string nor a list");
  for (const Json& entry : *found) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
        !entry.contains("template") || !entry["template"].is_string()) {
      return refuse("has an entry without name or template");
    }
    sources[entry["name"].get<std::string>()] = entry["template"].get<std::string>();
  }
  return sources;
}

}  // namespace

Result<Json> ChatTemplate::load_special_tokens(const fs::path& model_dir) {
  Json tokens = Json::object();
  bool decoder = false;
  if (file_exists(model_dir / "tokenizer_config.json")) {
    FATHOM_ASSIGN(const Json config, read_json(model_dir / "tokenizer_config.json"));
    add_tokens(config, tokens);
    decoder = config.contains("added_tokens_decoder");
  }
  // As transformers: the older file counts only where the newer has no added_tokens_decoder.
  if (!decoder && file_exists(model_dir / "special_tokens_map.json")) {
    FATHOM_ASSIGN(const Json map, read_json(model_dir / "special_tokens_map.json"));
    add_tokens(map, tokens);
  }
  return tokens;
}

Result<ChatTemplate> ChatTemplate::load(const fs::path& model_dir) {
  FATHOM_ASSIGN(Sources sources, template_files(model_dir));
  const fs::path config_path = model_dir / "tokenizer_config.json";
  if (sources.empty() && file_exists(config_path)) {
    FATHOM_ASSIGN(const Json config, read_json(config_path));
    FATHOM_ASSIGN(sources, configured_templates(config, config_path));
  }
  if (sources.empty()) {
    return error(Code::kNotFound,
                 "the model in " + model_dir.string() +
                     " has no chat template (neither chat_template.jinja nor a chat_template in "
                     "tokenizer_config.json); pass one with --chat-template FILE, or send plain "
                     "prompts instead of messages");
  }
  FATHOM_ASSIGN(Json tokens, load_special_tokens(model_dir));
  auto loaded = from_sources(sources, std::move(tokens));
  if (!loaded) return error(loaded.error().with_context(model_dir.string()));
  return loaded;
}

Result<ChatTemplate> ChatTemplate::from_source(std::string source, const Json& special_tokens) {
  if (!special_tokens.is_object() && !special_tokens.is_null()) {
    return error(Code::kInvalidArgument, "special tokens must be a JSON object of name and text");
  }
  Json tokens = Json::object();
  for (const auto& [name, value] : special_tokens.items()) {
    if (Json text = token_text(value); !text.is_null()) tokens[name] = std::move(text);
  }
  return from_sources({{"default", std::move(source)}}, std::move(tokens));
}

Result<ChatTemplate> ChatTemplate::from_sources(const Sources& sources, Json special_tokens) {
  ChatTemplate result;
  if (!sources.contains("default")) {
    std::string names;
    for (const auto& [name, source] : sources) names += (names.empty() ? "" : ", ") + name;
    return error(Code::kUnsupported,
                 "the model has several chat templates (" + names +
                     ") and none is named default; pass one with --chat-template FILE");
  }
  for (const auto& [name, source] : sources) {
    auto parsed = jinja::Template::parse(source);
    if (!parsed) {
      // A template that is not used need not be one this build understands.
      if (name != "default" && name != "tool_use") continue;
      return error(std::move(parsed).error());
    }
    result.templates_[name] = {source, std::make_shared<jinja::Template>(std::move(*parsed))};
  }
  result.special_tokens_ = std::move(special_tokens);
  return result;
}

const ChatTemplate::Entry& ChatTemplate::choose(bool with_tools) const {
  const auto tool_use = templates_.find("tool_use");
  return with_tools && tool_use != templates_.end() ? tool_use->second
                                                    : templates_.find("default")->second;
}

namespace {

// transformers marks the end of the text to continue with this, then cuts there.
constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

Status check_objects(const Json& list, const std::string& what, bool need_role) {
  if (!list.is_array()) {
    return Status(Code::kInvalidArgument, what + "s must be a JSON array, not " + list.type_name());
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = what + " " + std::to_string(i);
    if (!list[i].is_object()) {
      return Status(Code::kInvalidArgument,
                    name + " must be a JSON object, not " + list[i].type_name());
    }
    if (!need_role) continue;
    const auto role = list[i].find("role");
    if (role == list[i].end()) {
      return Status(Code::kInvalidArgument,
                    name + " has no \"role\"; give it one (system, user, assistant or tool)");
    }
    if (!role->is_string()) {
      return Status(Code::kInvalidArgument,
                    "the \"role\" of " + name + " must be a string, not " + role->type_name());
    }
  }
  return Status();
}

// Reasoning goes by three names; templates read the first, some the second.
void alias_reasoning(Json& message) {
  for (std::string_view field : kReasoningFields) {
    const auto found = message.find(field);
    if (found == message.end() || found->is_null()) continue;
    const Json reasoning = *found;
    Json aliased = Json::object();
    aliased["thinking"] = reasoning;
    for (const auto& [key, value] : message.items()) aliased[key] = value;
    aliased["reasoning_content"] = reasoning;
    message = std::move(aliased);
    return;
  }
}

std::string_view strip(std::string_view text, bool left) {
  const jinja::StripRange range = jinja::strip_range(text, nullptr, left, true);
  return text.substr(range.begin, range.end - range.begin);
}

// Puts the tag behind the text to continue; returns that text.
Result<std::string> tag_blocks(Json& blocks) {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (!block->is_object() || !block->contains("text")) continue;
    Json& text = (*block)["text"];
    if (!text.is_string()) break;
    const std::string original = text.get<std::string>();
    text = original + std::string(kContinueTag);
    return original;
  }
  return error(Code::kInvalidArgument,
               "continue_final_message is set, but the final message has no text to continue");
}

Result<std::string> tag_final_message(Json& messages, const std::string& field,
                                      const std::string& source) {
  if (messages.empty()) {
    return error(Code::kInvalidArgument,
                 "continue_final_message is set, but there is no message to continue");
  }
  Json& last = messages.back();
  if (!last.contains(field) || last[field].is_null()) {
    return error(Code::kInvalidArgument,
                 "continue_final_message is set, but the final message has "
                 "no \"" +
                     field + "\" to continue");
  }
  std::vector<std::string> fields = {field};
  if (std::find(std::begin(kReasoningFields), std::end(kReasoningFields), field) !=
      std::end(kReasoningFields)) {
    fields.clear();
    for (std::string_view name : kReasoningFields) {
      if (last.contains(name) && last[std::string(name)] == last[field]) fields.emplace_back(name);
    }
  }
  const bool read = std::any_of(fields.begin(), fields.end(), [&](const std::string& name) {
    return source.find(name) != std::string::npos;
  });
  if (!read) {
    return error(Code::kInvalidArgument, "continue_final_message names \"" + field +
                                             "\", which the chat template does not read");
  }
  if (last[field].is_array()) return tag_blocks(last[field]);
  if (!last[field].is_string()) {
    return error(Code::kInvalidArgument, "continue_final_message is set, but \"" + field +
                                             "\" of the final message is not a string");
  }
  const std::string original = last[field].get<std::string>();
  for (const std::string& name : fields) last[name] = original + std::string(kContinueTag);
  return original;
}

Result<std::string> cut_at_tag(std::string text, std::string_view final_message) {
  const std::string_view tag = strip(kContinueTag, true);
  const size_t at = text.rfind(tag);
  if (text.find(strip(final_message, true)) == std::string::npos || at == std::string::npos) {
    return error(Code::kInvalidArgument,
                 "continue_final_message is set, but the chat template does not print the final "
                 "message as it is, so it cannot be continued");
  }
  const bool spaced = std::string_view(text).substr(at).starts_with(kContinueTag);
  text.resize(at);
  if (!spaced) text.resize(strip(text, false).size());  // the template trims the message
  return text;
}

}  // namespace

Result<std::string> ChatTemplate::render(const Conversation& conversation) const {
  FATHOM_TRY(check_objects(conversation.messages, "message", true));
  if (!conversation.tools.is_null()) FATHOM_TRY(check_objects(conversation.tools, "tool", false));
  if (!conversation.kwargs.is_object() && !conversation.kwargs.is_null()) {
    return error(Code::kInvalidArgument, "the template variables (kwargs) must be a JSON object");
  }
  const Entry& entry = choose(!conversation.tools.is_null());
  Json variables = special_tokens_;
  variables["messages"] = nullptr;
  variables["tools"] = conversation.tools;
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = false;
  Json continues = false;
  for (const auto& [name, value] : conversation.kwargs.items()) {
    if (name == "messages" || name == "tools") {
      return error(Code::kInvalidArgument,
                   "\"" + name + "\" stands beside the template variables, not among them");
    }
    if (name == "documents" && !value.is_null())
      FATHOM_TRY(check_objects(value, "document", false));
    if (name == "continue_final_message") {
      continues = value;
    } else {
      variables[name] = value;
    }
  }
  Json messages = conversation.messages;
  for (Json& message : messages) alias_reasoning(message);
  const bool continued =
      continues.is_string() ? !continues.get_ref<std::string&>().empty() : continues == true;
  std::string final_message;
  if (continued) {
    const std::string field = continues.is_string() ? continues.get<std::string>() : "content";
    FATHOM_ASSIGN(final_message, tag_final_message(messages, field, entry.source));
  }
  variables["messages"] = std::move(messages);
  FATHOM_ASSIGN(std::string text, entry.parsed->render(variables));
  if (!continued) return text;
  return cut_at_tag(std::move(text), final_message);
}

}  // namespace fathom
