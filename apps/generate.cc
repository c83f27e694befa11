// Streams one request and reports what it cost.
#include "apps/generate.h"

#include <fmt/format.h>

#include "apps/console.h"
#include "core/clock.h"

namespace fathom::apps {
namespace {

constexpr double kPollSeconds = 0.05;  // how late Ctrl-C may be noticed

double rate(double tokens, double seconds) {
  return seconds > 0 ? tokens / seconds : 0;
}

double prefill_rate(const Usage& usage) {
  return rate(usage.prompt_tokens, usage.prefill_seconds);
}

// The first token belongs to the prefill.
double decode_rate(const Usage& usage) {
  return usage.completion_tokens > 1 ? rate(usage.completion_tokens - 1, usage.decode_seconds) : 0;
}

}  // namespace

Result<std::unique_ptr<Engine>> open_engine(const std::string& model, EngineOptions options) {
  ProgressBar bar("Loading weights", ProgressBar::Unit::kBytes);
  options.model.progress = bar.callback();
  return Engine::open(model, options);
}

Result<Generation> generate(Engine& engine, Request request, const InterruptGuard& interrupt,
                            const OnEvent& on_event) {
  const double start = now_seconds();
  FATHOM_ASSIGN(const std::shared_ptr<TokenStream> stream, engine.submit(std::move(request)));
  Generation generation;
  bool cancelled = false;
  while (true) {
    if (interrupt.interrupted() && !cancelled) {
      engine.cancel(stream->request_id());
      cancelled = true;
    }
    std::optional<StreamEvent> event = stream->next(kPollSeconds);
    if (!event) continue;
    if (generation.first_token_seconds < 0 && !event->token_ids.empty()) {
      generation.first_token_seconds = now_seconds() - start;
    }
    generation.text += event->text;
    generation.token_ids.insert(generation.token_ids.end(), event->token_ids.begin(),
                                event->token_ids.end());
    if (on_event) on_event(*event);
    if (event->finished) {
      if (event->finish_reason == FinishReason::kError) return error(event->error);
      generation.end = std::move(*event);
      return generation;
    }
  }
}

std::string stats_line(const Generation& generation) {
  const Usage& usage = generation.end.usage;
  std::string line = fmt::format("{} prompt tokens in {:.2f} s", usage.prompt_tokens,
                                 usage.queue_seconds + usage.prefill_seconds);
  if (prefill_rate(usage) > 0) line += fmt::format(" ({:.1f} tok/s)", prefill_rate(usage));
  line += fmt::format(", {} tokens in {:.2f} s", usage.completion_tokens, usage.decode_seconds);
  if (decode_rate(usage) > 0) line += fmt::format(" ({:.1f} tok/s)", decode_rate(usage));
  if (generation.first_token_seconds >= 0) {
    line += fmt::format(", first token after {:.3f} s", generation.first_token_seconds);
  }
  return line + fmt::format(", {}", finish_reason_name(generation.end.finish_reason));
}

nlohmann::ordered_json to_json(const Generation& generation) {
  const StreamEvent& end = generation.end;
  const Usage& usage = end.usage;
  nlohmann::ordered_json json = {{"text", generation.text},
                                 {"token_ids", generation.token_ids},
                                 {"finish_reason", finish_reason_name(end.finish_reason)}};
  if (!end.stop_string.empty()) json["stop_string"] = end.stop_string;
  if (end.stop_token_id >= 0) json["stop_token_id"] = end.stop_token_id;
  json["usage"] = {{"prompt_tokens", usage.prompt_tokens},
                   {"completion_tokens", usage.completion_tokens}};
  json["seed"] = usage.seed;
  json["time_to_first_token_s"] = generation.first_token_seconds;
  json["prefill_s"] = usage.prefill_seconds;
  json["decode_s"] = usage.decode_seconds;
  json["prefill_tok_per_s"] = prefill_rate(usage);
  json["decode_tok_per_s"] = decode_rate(usage);
  return json;
}

}  // namespace fathom::apps
