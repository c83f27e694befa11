// `fathom verify`: the bring-up checklist, or a comparison with a reference file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "apps/checklist.h"
#include "apps/commands.h"
#include "apps/console.h"
#include "apps/generate.h"
#include "apps/step_session.h"
#include "apps/verify_bits.h"
#include "apps/verify_engine.h"
#include "apps/verify_reference.h"
#include "core/clock.h"
#include "core/file.h"
#include "weights/resolve.h"

namespace fathom::apps {
namespace {

constexpr int64_t kChunk = 512;       // rows of a step of the long prompt
constexpr double kMemoryShare = 0.9;  // of free memory that the long prompt may take
const char* const kLoaded = "every weight loaded";
const char* const kFinite = "finite logits";

// A prompt as long as the model, memory and time allow: every step works, the last logits are
// finite.
Result<CheckResult> full_context(Model& model, const ChecklistOptions& options) {
  const int64_t full = model.config().max_position_embeddings;
  int64_t wanted = options.context > 0 ? std::min(options.context, full) : full;
  std::string limited;
  const double per_token = static_cast<double>(model.kv_layout().bytes_per_token());
  const double room = kMemoryShare * static_cast<double>(available_memory_bytes());
  if (per_token * static_cast<double>(wanted) > room) {
    wanted = std::max<int64_t>(1, static_cast<int64_t>(room / per_token));
    limited = "as much as memory allows";
  }
  FATHOM_ASSIGN(StepSession session, StepSession::create(model, 64, {wanted}));
  const std::vector<int32_t> tokens = pseudo_random_tokens(wanted, model.config().vocab_size, 9);
  std::vector<float> logits;
  ProgressBar bar("a prompt at the full context", ProgressBar::Unit::kCount);
  const double start = now_seconds();
  int64_t at = 0;
  while (at < wanted) {
    const int64_t count = std::min(kChunk, wanted - at);
    const std::span<const int32_t> chunk(tokens.data() + at, static_cast<size_t>(count));
    FATHOM_TRY(session.step(0, chunk, &logits));
    at += count;
    bar.update(static_cast<uint64_t>(at), static_cast<uint64_t>(wanted));
    if (options.time_limit > 0 && now_seconds() - start > options.time_limit && at < wanted) {
      limited = "stopped by --time-limit";
      break;
    }
  }
  bar.clear();
  const bool finite =
      std::all_of(logits.begin(), logits.end(), [](float value) { return std::isfinite(value); });
  if (!finite)
    return CheckResult::failed(fmt::format("logits at position {} are not finite", at - 1));
  return CheckResult::passed(fmt::format("{} of {} tokens in {:.1f} s{}{}", at, full,
                                         now_seconds() - start, limited.empty() ? "" : ": ",
                                         limited));
}

void run_bit_checks(Checklist& list, Model& model, const ChecklistOptions& options) {
  BitChecks bits(model);
  if (!list.run(kFinite, [&] { return bits.finite(); })) return;
  list.run("batched = alone (bits)", [&] { return bits.batched(); });
  list.run("chunked = whole (bits)", [&] { return bits.chunked(); });
  list.run("other page sizes (bits)", [&] { return bits.other_page_sizes(); });
  list.run("other thread count (bits)", [&] { return bits.other_threads(); });
  for (const kernels::Isa isa :
       {kernels::Isa::kScalar, kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
    if (isa == model.kernels().isa() || !kernels::isa_supported(isa)) continue;
    list.run(fmt::format("{} = {} (bits)", kernels::isa_name(isa),
                         kernels::isa_name(model.kernels().isa())),
             [&] { return bits.other_isa(isa, options.time_limit); });
  }
  list.run("a prompt at the full context", [&] { return full_context(model, options); });
}

void run_engine_checks(Checklist& list, const ChecklistOptions& options) {
  std::unique_ptr<Engine> engine;
  const bool opened = list.run("the engine opens", [&]() -> Result<CheckResult> {
    FATHOM_ASSIGN(engine, open_engine(options.engine.model.model, engine_options(options.engine)));
    const EngineMetrics metrics = engine->metrics();
    return CheckResult::passed(fmt::format(
        "{} KV pages of {} tokens ({}), context {}{}", metrics.kv_pages_total,
        engine->options().block_size, human_bytes(metrics.kv_memory_bytes), engine->max_model_len(),
        engine->tokenizer() ? "" : "; no tokenizer: token ids only"));
  });
  if (!opened) return;
  EngineChecks checks(*engine, options.time_limit);
  list.run("generation reaches max_tokens", [&] { return checks.reaches_max_tokens(); });
  list.run("temperature-0 runs equal", [&] { return checks.greedy_repeats(); });
  list.run("seeded sampling repeats", [&] { return checks.sampling_repeats(); });
  list.run("memory after 100 requests", [&] { return checks.memory_stays(); });
  list.run("100-token speed", [&] { return checks.speed(); });
}

}  // namespace

int run_checklist(const ChecklistOptions& options) {
  const auto folder = resolve_model(options.engine.model.model);
  if (!folder) return fail(folder.error());
  Checklist list(options.json);
  std::unique_ptr<Model> model;
  list.run(kLoaded, [&]() -> Result<CheckResult> {
    ModelOptions model_opts = model_options(options.engine.model);
    ProgressBar bar("Loading weights", ProgressBar::Unit::kBytes);
    model_opts.progress = bar.callback();
    const double start = now_seconds();
    FATHOM_ASSIGN(model, Model::load(*folder, model_opts));
    bar.clear();
    return CheckResult::passed(
        fmt::format("{} in {:.1f} s, {} layers", human_bytes(model->weight_bytes()),
                    now_seconds() - start, model->config().num_hidden_layers()));
  });
  if (model) {
    run_bit_checks(list, *model, options);
    model.reset();  // the engine loads its own: never two copies in memory
    run_engine_checks(list, options);
  } else {
    list.skip("all other checks", "they need the weights");
  }
  list.finish(options.engine.model.model);
  return list.all_passed() ? kExitOk : kExitFailure;
}

void add_verify(CLI::App& app, Action& action) {
  struct Options {
    ChecklistOptions checklist;
    std::string reference;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("verify", "Check that a model works as it should on this machine");
  add_engine_flags(*command, options->checklist.engine);
  command->add_option("--reference", options->reference,
                      "Compare with a reference file (written by tools/hf_reference.py): logits, "
                      "hidden states, router choices, greedy continuations");
  command->add_flag("--json", options->checklist.json, "Print one JSON object");
  command
      ->add_option("--time-limit", options->checklist.time_limit,
                   "Seconds that a long check may take; it then says how far it came. 0 = none")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command
      ->add_option("--context", options->checklist.context,
                   "Tokens of the long prompt; 0 = the model's full context")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  command->footer(
      "Without --reference the bring-up checklist runs: weights complete, logits finite, the same\n"
      "bits alone, batched, chunked, with other pages, threads and instruction sets, generation,\n"
      "memory, speed, the full context. Exit code 1 if any check fails.\n"
      "Examples:\n"
      "  fathom verify MODEL\n"
      "  fathom verify MODEL --time-limit 0          (no shortcuts on a large model)\n"
      "  fathom verify MODEL --reference golden.safetensors --json");
  command->callback([options, &action] {
    action = [options] {
      install_interrupt_handler();
      if (options->reference.empty()) return run_checklist(options->checklist);
      return verify_reference(options->checklist.engine, options->reference,
                              options->checklist.json);
    };
  });
}

}  // namespace fathom::apps
