// `fathom render`: conversations to prompt text, with the model's chat template or a given one.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/demo.h"
#include "apps/jsonl.h"
#include "apps/text_model.h"
#include "core/file.h"
#include "text/chat_template.h"

namespace fathom::apps {
namespace {

constexpr uint64_t kMaxTemplate = uint64_t{16} << 20;  // bytes

struct RenderOptions {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<std::string> system;
  std::vector<std::string> template_kwargs;
  std::string chat_template;
  bool no_generation_prompt = false;
  bool jsonl = false;
};

Result<ChatTemplate> load_template(const RenderOptions& options) {
  FATHOM_ASSIGN(const std::filesystem::path folder, resolve_text_model(options.model));
  if (options.chat_template.empty()) return ChatTemplate::load(folder);
  FATHOM_ASSIGN(std::string source, read_named_input(options.chat_template, kMaxTemplate));
  FATHOM_ASSIGN(const Json special_tokens, ChatTemplate::load_special_tokens(folder));
  Result<ChatTemplate> loaded = ChatTemplate::from_source(std::move(source), special_tokens);
  if (!loaded) return error(loaded.error().with_context(options.chat_template));
  return loaded;
}

// The fields of a line. Types are checked here, so that a failure of the template itself, which is
// an answer, can be told from a line that makes no sense.
Result<Conversation> conversation_of(const Json& value) {
  if (!value.is_object()) {
    return error(Code::kInvalidArgument, "Expected an object with \"messages\".");
  }
  FATHOM_ASSIGN(const Fields fields, Fields::open(value, {"messages", "tools", "kwargs"}));
  Conversation conversation;
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array()) {
    return error(Code::kInvalidArgument, "\"messages\" must be a list of objects.");
  }
  conversation.messages = *messages;
  if (const Json* tools = fields.find("tools")) {
    if (!tools->is_array()) {
      return error(Code::kInvalidArgument, "\"tools\" must be a list of objects, or null.");
    }
    conversation.tools = *tools;
  }
  if (const Json* kwargs = fields.find("kwargs")) {
    if (!kwargs->is_object()) {
      return error(Code::kInvalidArgument, "\"kwargs\" must be an object.");
    }
    conversation.kwargs = *kwargs;
  }
  return conversation;
}

Result<Json> render_line(const ChatTemplate& chat_template, const Json& value) {
  FATHOM_ASSIGN(const Conversation conversation, conversation_of(value));
  const Result<std::string> text = chat_template.render(conversation);
  if (!text) return Json{{"error", text.error().message()}};
  return Json{{"text", *text}};
}

int render(const RenderOptions& options) {
  const Result<ChatTemplate> chat_template = load_template(options);
  if (!chat_template) return fail(chat_template.error());
  if (options.jsonl) {
    return run_jsonl([&](const Json& value) { return render_line(*chat_template, value); });
  }
  std::string user;
  if (options.prompt) {
    user = *options.prompt;
  } else {
    Result<std::string> text = read_standard_input(kMaxTemplate);
    if (!text) return fail(text.error());
    user = std::move(*text);
  }
  Conversation conversation;
  conversation.messages = chat_messages(options.system, user);
  conversation.kwargs = Json{{"add_generation_prompt", !options.no_generation_prompt}};
  conversation.kwargs.update(template_kwargs_object(options.template_kwargs));
  const Result<std::string> text = chat_template->render(conversation);
  if (!text) return fail(text.error());
  print(*text + "\n");
  return kExitOk;
}

}  // namespace

void add_render(CLI::App& app, Action& action) {
  auto options = std::make_shared<RenderOptions>();
  CLI::App* command =
      app.add_subcommand("render", "Turn a conversation into the prompt that the model sees");
  command
      ->add_option("MODEL", options->model,
                   "Folder with a chat template (tokenizer_config.json), or org/name")
      ->required();
  CLI::Option* prompt = command->add_option("PROMPT", options->prompt,
                                            "The user's message; without it, standard input");
  CLI::Option* jsonl = command->add_flag(
      "--jsonl", options->jsonl,
      "Read one conversation a line from standard input: {\"messages\": [...], \"tools\": ..., "
      "\"kwargs\": {\"add_generation_prompt\": bool, \"continue_final_message\": bool, any "
      "template "
      "variable}}; write {\"text\": ...} or {\"error\": ...} a line");
  prompt->excludes(jsonl);
  command->add_option("--chat-template", options->chat_template,
                      "Use this Jinja file instead of the model's own template");
  command->add_option("--system,-s", options->system, "System message")->excludes(jsonl);
  add_template_kwargs(*command, options->template_kwargs)->excludes(jsonl);
  command
      ->add_flag("--no-generation-prompt", options->no_generation_prompt,
                 "Leave out the beginning of the answer")
      ->excludes(jsonl);
  command->footer(
      "Examples:\n"
      "  fathom render MODEL \"Hello\" --system \"Be brief.\"\n"
      "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}' | \\\n"
      "      fathom render MODEL --jsonl\n"
      "A conversation that the template refuses is answered with {\"error\": ...}; that is no\n"
      "failure of the program (exit code 0). A line that is no conversation is one (exit code 1).");
  command->callback([options, &action] { action = [options] { return render(*options); }; });
}

}  // namespace fathom::apps
