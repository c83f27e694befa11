// `fathom run`: answers one prompt, or the prompts of a file, and streams what the model writes.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/demo.h"
#include "apps/generate.h"
#include "apps/options.h"
#include "core/file.h"
#include "engine/structured_output.h"

namespace fathom::apps {
namespace {

constexpr uint64_t kMaxPrompt = uint64_t{256} << 20;  // bytes
constexpr uint64_t kMaxSchema = uint64_t{1} << 20;

struct RunOptions {
  EngineFlags engine;
  SamplingFlags sampling;
  std::optional<std::string> prompt;
  std::string file;
  std::vector<int32_t> token_ids;
  std::string demo;
  std::optional<std::string> system;
  std::vector<std::string> template_kwargs;  // "key=JSON value"
  std::string chat_template;
  std::string json_schema;  // a file
  bool raw = false;
  bool json = false;
  bool quiet = false;
};

// Standard input and files end with a line end that nobody means.
std::string without_line_end(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (!text.empty() && text.back() == '\r') text.pop_back();
  return text;
}

Result<std::string> prompt_text(const RunOptions& options) {
  if (options.prompt) return *options.prompt;
  if (!options.file.empty()) {
    FATHOM_ASSIGN(std::string text, read_named_input(options.file, kMaxPrompt));
    return without_line_end(std::move(text));
  }
  FATHOM_ASSIGN(std::string text, read_standard_input(kMaxPrompt));
  return without_line_end(std::move(text));
}

Result<Request> make_request(const Engine& engine, const RunOptions& options,
                             const std::string& text) {
  Request request;
  request.sampling = sampling_params(options.sampling, engine.default_sampling());
  if (!options.token_ids.empty()) {
    request.prompt = options.token_ids;
  } else if (options.raw || (engine.chat_template() == nullptr && !options.system)) {
    request.prompt = TextPrompt{text, true, true};
  } else if (engine.chat_template() == nullptr) {
    return error(Code::kUnsupported,
                 "The model has no chat template, so --system has no place in its prompt. Leave it "
                 "out, or give a template with --chat-template.");
  } else {
    request.prompt = chat_prompt(options.system, text, options.template_kwargs);
  }
  return request;
}

void print_ids(const StreamEvent& event) {
  for (const int32_t id : event.token_ids) print(fmt::format("{} ", id));
  flush_output();
}

int run_one(Engine& engine, const RunOptions& options, const std::string& text) {
  Result<Request> request = make_request(engine, options, text);
  if (!request) return fail(request.error());
  StructuredOutput structured(engine);
  if (!options.json_schema.empty()) {
    GrammarSpec form;
    form.kind = GrammarSpec::Kind::kJsonSchema;
    Result<std::string> schema = read_named_input(options.json_schema, kMaxSchema);
    if (!schema) return fail(schema.error());
    form.text = std::move(*schema);
    const Status status = structured.apply(form, &*request);
    if (!status.ok()) return fail(status);
  }
  const bool has_text = engine.tokenizer() != nullptr;
  InterruptGuard interrupt;
  const Result<Generation> done =
      generate(engine, std::move(*request), interrupt, [&](const StreamEvent& event) {
        if (options.json) return;
        if (!has_text) return print_ids(event);
        print(event.text);
        flush_output();
      });
  if (!done) return fail(done.error());
  if (options.json) {
    nlohmann::ordered_json json = to_json(*done);
    json["fingerprint"] = engine.fingerprint();
    print_json(json);
  } else if (!has_text || done->text.empty() || done->text.back() != '\n') {
    print("\n");
  }
  flush_output();
  if (!options.quiet && !options.json) note(stats_line(*done));
  return done->end.finish_reason == FinishReason::kCancelled ? kExitInterrupted : kExitOk;
}

int run(const RunOptions& options) {
  install_interrupt_handler();
  // Everything that can fail quickly comes before the weights.
  Result<std::string> text = std::string();
  if (options.demo.empty() && options.token_ids.empty()) {
    text = prompt_text(options);
    if (!text) return fail(text.error());
  }
  std::vector<DemoPrompt> demo;
  if (!options.demo.empty()) {
    Result<std::vector<DemoPrompt>> read = read_demo(options.demo);
    if (!read) return fail(read.error());
    demo = std::move(*read);
  }
  EngineOptions engine_opts = engine_options(options.engine);
  engine_opts.chat_template_file = options.chat_template;
  const auto engine = open_engine(options.engine.model.model, engine_opts);
  if (!engine) return fail(engine.error());
  if (!options.demo.empty()) {
    return run_demo(**engine, demo,
                    sampling_params(options.sampling, (*engine)->default_sampling()));
  }
  return run_one(**engine, options, *text);
}

void check_run_options(const RunOptions& options) {
  check_sampling_flags(options.sampling);
  const int sources = int(options.prompt.has_value()) + int(!options.file.empty()) +
                      int(!options.token_ids.empty()) + int(!options.demo.empty());
  if (sources > 1) {
    throw CLI::ValidationError("PROMPT", "give only one of PROMPT, --file, --token-ids, --demo");
  }
  if (sources == 0 && stdin_is_terminal()) {
    throw CLI::ValidationError("PROMPT", "give a prompt, --file, or pipe text into the program");
  }
  if (!options.json_schema.empty() && !options.demo.empty()) {
    throw CLI::ValidationError("--json-schema", "--demo has answers of its own");
  }
  if (options.raw && options.system) {
    throw CLI::ValidationError("--raw", "a plain text has no place for --system");
  }
}

void add_prompt_options(CLI::App& command, RunOptions& options) {
  command.add_option("PROMPT", options.prompt,
                     "The prompt; without it (and without --file) standard input, less its last "
                     "line end");
  command.add_option("--file,-f", options.file, "Read the prompt from a file");
  command.add_flag("--raw", options.raw,
                   "Complete the text as it stands (with the tokenizer's BOS), without the chat "
                   "template. Default for models that have no template");
  command.add_option("--system,-s", options.system, "System message of the conversation");
  add_template_kwargs(command, options.template_kwargs);
  command.add_option("--chat-template", options.chat_template,
                     "Use this Jinja file instead of the model's own template");
  command
      .add_option("--token-ids", options.token_ids,
                  "The prompt as token ids, separated by commas; the only form for models without "
                  "a tokenizer")
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()))
      ->delimiter(',');
  command.add_option("--demo", options.demo,
                     "Answer the prompts of a JSON-lines file one after the other: {\"prompt\": "
                     "...} or {\"messages\": ..., \"tools\": ...}, with \"answer\" to compare");
  command.add_option("--json-schema", options.json_schema,
                     "Hold the answer to the JSON schema in this file: objects have the properties "
                     "it names and no others");
  command.add_flag("--json", options.json,
                   "Print one JSON object at the end instead of streaming text");
  command.add_flag("--quiet,-q", options.quiet, "No stats line");
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Answer a prompt and stream the answer");
  add_engine_flags(*command, options->engine);
  add_prompt_options(*command, *options);
  add_sampling_flags(*command, options->sampling);
  command->footer(
      "The prompt is rendered through the model's chat template if it has one; --raw completes\n"
      "plain text instead. The answer goes to standard output as it comes, a line with the speed\n"
      "to standard error. Ctrl-C ends the answer (exit code 130).\n"
      "Examples:\n"
      "  fathom run MODEL \"Why is the sky blue?\" --temperature 0\n"
      "  fathom run MODEL --raw \"Once upon a time\" --max-tokens 100 --seed 7\n"
      "  cat question.txt | fathom run MODEL --system \"Be brief.\" > answer.txt\n"
      "  fathom run MODEL \"List three primes.\" --json | jq .usage");
  command->callback([options, &action] {
    check_run_options(*options);
    action = [options] { return run(*options); };
  });
}

}  // namespace fathom::apps
