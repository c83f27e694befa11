// The `fathom` binary: parses the command line and runs one subcommand.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdio>
#include <exception>
#include <new>

#include "apps/commands.h"
#include "apps/console.h"
#include "core/log.h"

namespace fathom::apps {
namespace {

constexpr const char* kDescription =
    "fathom runs DeepSeek models from their released Hugging Face folders, natively on the CPU.\n"
    "MODEL is a folder, a path inside the Hugging Face cache, or org/name[@revision] found there;\n"
    "nothing is downloaded.";
constexpr const char* kFooter =
    "Examples:\n"
    "  fathom run deepseek-ai/DeepSeek-V2-Lite-Chat \"Why is the sky blue?\"\n"
    "  fathom chat ./my-model --system \"Answer in one sentence.\"\n"
    "  fathom serve ./my-model --port 8000\n"
    "  fathom inspect ./my-model --context 32768\n"
    "  fathom verify ./my-model\n"
    "Exit codes: 0 success, 1 failure while running, 2 wrong usage, 130 interrupted by Ctrl-C.\n"
    "`fathom COMMAND --help` explains each command.";

void set_up_log(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("fathom"));  // stdout carries results only
  spdlog::set_level(spdlog::level::from_str(level == "warning" ? "warn" : level));
}

int run(int argc, char** argv) {
  CLI::App app(kDescription, "fathom");
  app.footer(kFooter);
  app.set_version_flag("--version", "fathom " FATHOM_VERSION);
  app.set_help_all_flag("--help-all", "Print the help of all commands and exit");
  std::string level;
  app.add_option("--log-level", level,
                 "What is logged to standard error (default: info for serve, else warning)")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  app.fallthrough();  // --log-level may stand after the command too
  app.require_subcommand(1);

  Action action;
  add_run(app, action);
  add_chat(app, action);
  add_inspect(app, action);
  add_tokenize(app, action);
  add_detokenize(app, action);
  add_render(app, action);
  add_verify(app, action);
  add_bench(app, action);
  add_serve(app, action);
  add_replay(app, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& e) {
    if (argc == 1) {
      std::fputs(app.help().c_str(), stderr);
      return kExitUsage;
    }
    const auto chosen = app.get_subcommands();
    const auto unknown = app.remaining();
    std::string wrong = e.what();
    if (chosen.empty() && !unknown.empty()) {  // the parser only says that a command is missing
      wrong = fmt::format("there is no {} {}", unknown.front()[0] == '-' ? "option" : "command",
                          unknown.front());
    }
    note(fmt::format("error: {}\nSee `fathom {}--help`.", wrong,
                     chosen.empty() ? "" : chosen.front()->get_name() + " "));
    return kExitUsage;
  }
  if (level.empty()) level = app.got_subcommand("serve") ? "info" : "warning";
  set_up_log(level);
  return action();
}

}  // namespace
}  // namespace fathom::apps

int main(int argc, char** argv) {
  using namespace fathom::apps;
  int code = kExitFailure;
  // Folders report failures as Status; this net is for what the standard library throws here.
  try {
    code = run(argc, argv);
  } catch (const std::bad_alloc&) {
    note("error: out of memory.");
  } catch (const std::exception& e) {
    note(fmt::format("error: {}", e.what()));
  }
  if (!close_output() && code == kExitOk) code = kExitFailure;
  return code;
}
