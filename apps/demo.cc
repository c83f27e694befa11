// Builds conversations from command-line texts and runs files of demo prompts.
#include "apps/demo.h"

#include <fmt/format.h>

#include <sstream>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/generate.h"
#include "apps/jsonl.h"
#include "core/file.h"

namespace fathom::apps {
namespace {

constexpr uint64_t kMaxDemoFile = uint64_t{16} << 20;  // bytes
constexpr size_t kShownBytes = 300;                    // of a prompt; the rest is counted

std::string shortened(const std::string& text) {
  if (text.size() <= kShownBytes) return text;
  size_t cut = kShownBytes;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return fmt::format("{} ... ({} more bytes)", text.substr(0, cut), text.size() - cut);
}

Result<DemoPrompt> demo_prompt(const Json& line) {
  DemoPrompt prompt;
  const auto text = [&](const char* key) -> std::optional<std::string> {
    const auto found = line.find(key);
    if (found == line.end() || !found->is_string()) return std::nullopt;
    return found->get<std::string>();
  };
  if (const auto note = text("note")) {
    prompt.note = *note;
    return prompt;
  }
  prompt.answer = text("answer");
  if (const auto user = text("prompt")) {
    prompt.shown = *user;
    prompt.chat = chat_prompt(std::nullopt, *user, {});
    return prompt;
  }
  const auto messages = line.find("messages");
  if (messages == line.end() || !messages->is_array() || messages->empty()) {
    return error(Code::kInvalidArgument, "expected \"prompt\", \"messages\" or \"note\"");
  }
  const Json& last = messages->back();
  const auto content = last.is_object() ? last.find("content") : last.end();
  if (last.is_object() && content != last.end() && content->is_string()) {
    prompt.shown = content->get<std::string>();
  }
  prompt.chat.messages = messages->dump();
  const auto tools = line.find("tools");
  if (tools != line.end() && !tools->is_null()) prompt.chat.tools = tools->dump();
  return prompt;
}

// For CLI11: "" if the text is key=JSON value, else what is wrong.
std::string check_template_kwarg(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return "expected key=JSON value, not " + text;
  const Result<Json> value = parse_json_line(text.substr(equals + 1));
  return value ? "" : fmt::format("the value of {} is not JSON", text.substr(0, equals));
}

}  // namespace

CLI::Option* add_template_kwargs(CLI::App& command, std::vector<std::string>& template_kwargs) {
  return command
      .add_option("--template-kwarg", template_kwargs,
                  "A variable for the chat template (value in JSON), e.g. thinking=true")
      ->check(CLI::Validator(check_template_kwarg, "KEY=JSON"))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

Json template_kwargs_object(const std::vector<std::string>& template_kwargs) {
  Json kwargs = Json::object();
  for (const std::string& text : template_kwargs) {
    const size_t equals = text.find('=');
    kwargs[text.substr(0, equals)] = Json::parse(text.substr(equals + 1));
  }
  return kwargs;
}

std::string template_kwargs_json(const std::vector<std::string>& template_kwargs) {
  return template_kwargs.empty() ? "" : json_line(template_kwargs_object(template_kwargs));
}

Json chat_messages(const std::optional<std::string>& system, const std::string& user) {
  Json messages = Json::array();
  if (system) messages.push_back({{"role", "system"}, {"content", *system}});
  messages.push_back({{"role", "user"}, {"content", user}});
  return messages;
}

ChatPrompt chat_prompt(const std::optional<std::string>& system, const std::string& user,
                       const std::vector<std::string>& template_kwargs) {
  return {json_line(chat_messages(system, user)), "", template_kwargs_json(template_kwargs)};
}

Result<std::vector<DemoPrompt>> read_demo(const std::string& path) {
  FATHOM_ASSIGN(const std::string text, read_named_input(path, kMaxDemoFile));
  std::vector<DemoPrompt> prompts;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<Json> json = parse_json_line(line);
    Result<DemoPrompt> prompt = json ? demo_prompt(*json) : error(json.error());
    if (!prompt) {
      return error(prompt.error().with_context(fmt::format("{}, line {}", path, number)));
    }
    prompts.push_back(std::move(*prompt));
  }
  return prompts;
}

int run_demo(Engine& engine, const std::vector<DemoPrompt>& prompts,
             const SamplingParams& sampling) {
  InterruptGuard interrupt;
  Usage sum;
  int answered = 0, compared = 0, right = 0;
  for (const DemoPrompt& prompt : prompts) {
    if (!prompt.note.empty()) {
      print(prompt.note + "\n\n");
      continue;
    }
    print(fmt::format("> {}\n", shortened(prompt.shown)));
    flush_output();
    Request request;
    request.sampling = sampling;
    request.prompt = prompt.chat;
    const auto done = generate(engine, std::move(request), interrupt, [](const StreamEvent& event) {
      print(event.text);
      flush_output();
    });
    if (!done) return fail(done.error());
    print("\n");
    if (done->end.finish_reason == FinishReason::kCancelled) return kExitInterrupted;
    ++answered;
    if (prompt.answer) {
      ++compared;
      const bool equal = done->text == *prompt.answer;
      right += equal;
      if (!equal) print(fmt::format("  (expected: {})\n", *prompt.answer));
    }
    print("\n");
    const Usage& usage = done->end.usage;
    sum.prompt_tokens += usage.prompt_tokens;
    sum.completion_tokens += usage.completion_tokens;
    sum.prefill_seconds += usage.prefill_seconds;
    sum.decode_seconds += usage.decode_seconds;
  }
  flush_output();
  const auto rate = [](double tokens, double seconds) {
    return seconds > 0 ? tokens / seconds : 0;
  };
  std::string line = fmt::format(
      "{} prompts: {} prompt tokens ({:.0f} tok/s), {} tokens written ({:.0f} tok/s)", answered,
      sum.prompt_tokens, rate(sum.prompt_tokens, sum.prefill_seconds), sum.completion_tokens,
      rate(sum.completion_tokens - answered, sum.decode_seconds));
  if (compared > 0) line += fmt::format(", {} of {} answers as expected", right, compared);
  note(line);
  return kExitOk;
}

}  // namespace fathom::apps
