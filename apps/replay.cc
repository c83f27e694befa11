// `fathom replay`: asks logged requests again, alone, and reports every byte that differs.
#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/demo.h"
#include "apps/generate.h"
#include "apps/options.h"
#include "http/api/replay.h"

namespace fathom::apps {
namespace {

struct ReplayFlags {
  EngineFlags engine;
  std::string log;
  std::vector<std::string> template_kwargs;
  std::optional<bool> thinking;
  std::string chat_template;
};

int replay(const ReplayFlags& flags) {
  std::ifstream file(flags.log, std::ios::binary);
  if (!file) {
    return fail({Code::kNotFound, fmt::format("The request log {} cannot be read.", flags.log)});
  }
  EngineOptions engine_opts = engine_options(flags.engine);
  engine_opts.chat_template_file = flags.chat_template;
  const auto engine = open_engine(flags.engine.model.model, engine_opts);
  if (!engine) return fail(engine.error());
  ApiOptions options;
  options.chat_template_kwargs = template_kwargs_object(flags.template_kwargs);
  options.thinking = flags.thinking;
  Replayer replayer(**engine, options);

  size_t requests = 0, different = 0, failed = 0, number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    ++requests;
    const Result<ReplayOutcome> outcome = replayer.run(line);
    if (!outcome) {
      ++failed;
      print(fmt::format("line {}: {}\n", number, outcome.error().message()));
      continue;
    }
    if (outcome->differences.empty()) continue;
    ++different;
    for (const std::string& difference : outcome->differences) {
      print(fmt::format("line {}, {}: {}\n", number, outcome->id, difference));
    }
  }
  print(fmt::format("{} requests: {} the same, {} different, {} could not be asked again.\n",
                    requests, requests - different - failed, different, failed));
  flush_output();
  return different + failed == 0 ? kExitOk : kExitFailure;
}

}  // namespace

void add_replay(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* command =
      app.add_subcommand("replay", "Ask the requests of a log again and compare every byte");
  add_engine_flags(*command, flags->engine);
  command->add_option("LOG", flags->log, "File that `fathom serve --request-log` wrote")
      ->required();
  add_template_kwargs(*command, flags->template_kwargs);
  command->add_flag("--thinking,!--no-thinking", flags->thinking, "As the server had it");
  command->add_option("--chat-template", flags->chat_template, "As the server had it");
  command->footer(
      "Each request runs alone, with the seed that it had; token ids, text, log-probabilities and\n"
      "the bytes of the answer are compared. Exit code 1 if anything differs.\n"
      "Examples:\n"
      "  fathom replay MODEL requests.jsonl");
  command->callback([flags, &action] { action = [flags] { return replay(*flags); }; });
}

}  // namespace fathom::apps
