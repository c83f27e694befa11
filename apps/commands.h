// The subcommands of the binary: each file adds its own to the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace fathom::apps {

// Exit codes of the binary. A usage error is anything that a look at --help would have avoided.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;  // as shells report SIGINT

// What the parsed command line asks for; returns an exit code. Set by the subcommand's callback,
// run by main() after parsing, so that a usage error never leaves work half done.
using Action = std::function<int()>;

void add_run(CLI::App& app, Action& action);
void add_chat(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_detokenize(CLI::App& app, Action& action);
void add_render(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_replay(CLI::App& app, Action& action);

}  // namespace fathom::apps
