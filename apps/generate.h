// One request from submit to its terminal event, for run and chat: streams, listens to Ctrl-C,
// times.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/interrupt.h"
#include "core/status.h"
#include "engine/engine.h"

namespace fathom::apps {

struct Generation {
  std::string text;
  std::vector<int32_t> token_ids;
  StreamEvent end;                  // the terminal event: reason, usage
  double first_token_seconds = -1;  // submit to the first token; -1 = none came
};

// Called for each event with new text or tokens.
using OnEvent = std::function<void(const StreamEvent& event)>;

// Opens the engine with a progress bar for the weights. A failure is the user's message.
Result<std::unique_ptr<Engine>> open_engine(const std::string& model, EngineOptions options);

// Runs the request to its end; Ctrl-C cancels it (finish reason kCancelled). Fails if the engine
// refuses the request or it ends with an error.
Result<Generation> generate(Engine& engine, Request request, const InterruptGuard& interrupt,
                            const OnEvent& on_event);

// "12 prompt tokens in 0.05 s (240 tok/s), 64 tokens in 1.2 s (53 tok/s), first after 0.06 s, stop"
std::string stats_line(const Generation& generation);
// The same figures, with text, ids and seed.
nlohmann::ordered_json to_json(const Generation& generation);

}  // namespace fathom::apps
