// `fathom chat`: a conversation in the terminal, or line by line through a pipe.
#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <optional>

#include "apps/chat_printer.h"
#include "apps/commands.h"
#include "apps/console.h"
#include "apps/demo.h"
#include "apps/generate.h"
#include "apps/jsonl.h"
#include "apps/line_editor.h"
#include "apps/options.h"
#include "text/chat_template.h"
#include "text/output_parser.h"

namespace fathom::apps {
namespace {

constexpr const char* kHelp =
    "/reset         forget the conversation\n"
    "/system TEXT   set the system message (without TEXT: remove it) and forget the conversation\n"
    "/save FILE     write the conversation as JSON\n"
    "/help          this list\n"
    "/quit          leave (so does Ctrl-D)\n"
    "A line that ends with a backslash goes on in the next one. Ctrl-C stops an answer.\n";

struct ChatOptions {
  EngineFlags engine;
  SamplingFlags sampling;
  std::optional<std::string> system;
  std::vector<std::string> template_kwargs;
  std::string chat_template;
  bool quiet = false;
};

// The conversation and what the user does with it. Owned by the main thread.
class ChatSession {
 public:
  ChatSession(Engine& engine, const ChatOptions& options, InterruptGuard& interrupt)
      : engine_(engine),
        interrupt_(interrupt),
        sampling_(sampling_params(options.sampling, engine.default_sampling())),
        template_kwargs_(template_kwargs_object(options.template_kwargs)),
        system_(options.system),
        quiet_(options.quiet) {
    reset();
  }

  void reset() {
    messages_ = Json::array();
    if (system_) messages_.push_back({{"role", "system"}, {"content", *system_}});
  }
  void set_system(const std::string& text) {
    system_ = text.empty() ? std::nullopt : std::optional(text);
    reset();
  }
  // False if the engine refused: the message was taken back.
  bool say(const std::string& text);
  Status save(const std::string& path) const;

 private:
  bool begins_inside_reasoning() const;

  Engine& engine_;
  InterruptGuard& interrupt_;
  SamplingParams sampling_;
  Json template_kwargs_;
  std::optional<std::string> system_;
  bool quiet_;
  Json messages_;
};

// Whether the prompt ends inside <think>: some templates open the reasoning themselves.
bool ChatSession::begins_inside_reasoning() const {
  Conversation conversation;
  conversation.messages = messages_;
  conversation.kwargs = {{"add_generation_prompt", true}};
  conversation.kwargs.update(template_kwargs_);
  const Result<std::string> prompt = engine_.chat_template()->render(conversation);
  return prompt && opens_reasoning(*prompt);
}

bool ChatSession::say(const std::string& text) {
  messages_.push_back({{"role", "user"}, {"content", text}});
  Request request;
  request.sampling = sampling_;
  request.prompt = ChatPrompt{json_line(messages_), "", json_line(template_kwargs_)};
  interrupt_.clear();
  ChatPrinter printer(detect_output_format(engine_.chat_template()->source(false)),
                      begins_inside_reasoning());
  const auto done = generate(engine_, std::move(request), interrupt_,
                             [&](const StreamEvent& event) { printer.push(event.text); });
  if (!done) {
    messages_.erase(messages_.size() - 1);
    note("error: " + done.error().message());
    note("the message was taken back; /reset starts a new conversation.");
    return false;
  }
  printer.finish();
  print("\n");
  flush_output();
  if (done->end.finish_reason == FinishReason::kCancelled) note("(answer stopped)");
  if (done->end.finish_reason == FinishReason::kLength) {
    note("(the answer was cut at --max-tokens or at the end of the context; /reset makes room)");
  }
  if (!quiet_) note(stats_line(*done));
  if (printer.empty() && done->end.finish_reason == FinishReason::kCancelled) {
    messages_.erase(messages_.size() - 1);
  } else {
    messages_.push_back(printer.message());
  }
  return true;
}

Status ChatSession::save(const std::string& path) const {
  std::ofstream file(path, std::ios::binary);
  file << messages_.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  file.flush();
  if (!file) return {Code::kInvalidArgument, fmt::format("{} cannot be written.", path)};
  return {};
}

// "/command" and what follows it.
std::pair<std::string, std::string> split_command(const std::string& line) {
  const size_t space = line.find_first_of(" \t");
  if (space == std::string::npos) return {line, ""};
  const size_t begin = line.find_first_not_of(" \t", space);
  return {line.substr(0, space), begin == std::string::npos ? "" : line.substr(begin)};
}

// False to leave.
bool run_command(ChatSession& conversation, const std::string& line, bool* failed) {
  const auto [command, argument] = split_command(line);
  if (command == "/quit" || command == "/exit") return false;
  if (command == "/reset") {
    conversation.reset();
    note("the conversation is forgotten.");
  } else if (command == "/system") {
    conversation.set_system(argument);
    note(argument.empty() ? "no system message; the conversation starts afresh."
                          : "system message set; the conversation starts afresh.");
  } else if (command == "/save" && !argument.empty()) {
    const Status status = conversation.save(argument);
    *failed |= !status.ok();
    note(status.ok() ? "saved to " + argument : "error: " + status.message());
  } else if (command == "/save") {
    note("error: /save needs a file name.");
  } else if (command == "/help") {
    print(kHelp);
    flush_output();
  } else {
    note(fmt::format("error: unknown command {}; /help lists the commands.", command));
  }
  return true;
}

// A line and those that follow it after a backslash.
std::optional<std::string> read_message(LineEditor& editor) {
  std::optional<std::string> line = editor.next();
  while (line && !line->empty() && line->back() == '\\') {
    const std::optional<std::string> more = editor.next();
    line->back() = '\n';
    if (!more) break;
    *line += *more;
  }
  return line;
}

int chat(const ChatOptions& options) {
  install_interrupt_handler();
  EngineOptions engine_opts = engine_options(options.engine);
  engine_opts.chat_template_file = options.chat_template;
  const auto engine = open_engine(options.engine.model.model, engine_opts);
  if (!engine) return fail(engine.error());
  if ((*engine)->chat_template() == nullptr) {
    return fail({Code::kUnsupported,
                 "The model has no chat template. Give one with --chat-template, or complete plain "
                 "text with `fathom run --raw`."});
  }
  InterruptGuard interrupt;
  ChatSession conversation(**engine, options, interrupt);
  LineEditor editor("> ", interrupt);
  if (stdin_is_terminal() && !options.quiet) note("/help lists commands, Ctrl-D leaves.");
  bool failed = false;
  while (const std::optional<std::string> line = read_message(editor)) {
    if (line->find_first_not_of(" \t\n") == std::string::npos) continue;
    if (line->front() == '/') {
      if (!run_command(conversation, *line, &failed)) break;
    } else {
      failed |= !conversation.say(*line);
    }
  }
  // A person has seen the errors; a script needs the exit code.
  return failed && !stdin_is_terminal() ? kExitFailure : kExitOk;
}

}  // namespace

void add_chat(CLI::App& app, Action& action) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* command = app.add_subcommand("chat", "Talk with a model");
  add_engine_flags(*command, options->engine);
  command->add_option("--system,-s", options->system, "System message of the conversation");
  add_template_kwargs(*command, options->template_kwargs);
  command->add_option("--chat-template", options->chat_template,
                      "Use this Jinja file instead of the model's own template");
  command->add_flag("--quiet,-q", options->quiet, "No stats lines");
  add_sampling_flags(*command, options->sampling);
  command->footer(std::string("In the conversation:\n") + kHelp +
                  "Examples:\n"
                  "  fathom chat MODEL --system \"Answer in one sentence.\"\n"
                  "  printf 'My name is Ada.\\nWhat is my name?\\n' | fathom chat MODEL --quiet");
  command->callback([options, &action] {
    check_sampling_flags(options->sampling);
    action = [options] { return chat(*options); };
  });
}

}  // namespace fathom::apps
