// Prompts for run and chat: conversations as the engine takes them, and files of demo prompts.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "engine/engine.h"
#include "types/sampling_params.h"

namespace fathom::apps {

// A conversation of one user message.
nlohmann::ordered_json chat_messages(const std::optional<std::string>& system,
                                     const std::string& user);
// The same for the engine. `template_kwargs`: "key=JSON value", checked before.
ChatPrompt chat_prompt(const std::optional<std::string>& system, const std::string& user,
                       const std::vector<std::string>& template_kwargs);
nlohmann::ordered_json template_kwargs_object(const std::vector<std::string>& template_kwargs);
// "{...}" for ChatPrompt::template_kwargs; "" if there are none.
std::string template_kwargs_json(const std::vector<std::string>& template_kwargs);
// --template-kwarg key=JSON, repeatable.
CLI::Option* add_template_kwargs(CLI::App& command, std::vector<std::string>& template_kwargs);

// One line of a demo file.
struct DemoPrompt {
  std::string note;                   // a line to print; then nothing else is set
  std::string shown;                  // the last user message
  ChatPrompt chat;                    // the conversation
  std::optional<std::string> answer;  // what is right
};
// JSON lines: {"note": text}, {"prompt": text} or {"messages": [...], "tools": [...]}, the last two
// with "answer": text. Other keys are ignored.
Result<std::vector<DemoPrompt>> read_demo(const std::string& path);

// Answers them one after the other: prompt, streamed answer, whether it is the expected one; a
// stats line at the end. Returns an exit code; a wrong answer is no failure.
int run_demo(Engine& engine, const std::vector<DemoPrompt>& prompts,
             const SamplingParams& sampling);

}  // namespace fathom::apps
