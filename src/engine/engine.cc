// Engine: checks requests, encodes prompts and hands them to the step loop.
#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <random>
#include <utility>

#include "core/clock.h"
#include "core/file.h"
#include "engine/memory_plan.h"
#include "engine/parts.h"
#include "engine/prompt.h"
#include "engine/step_loop.h"
#include "sampler/philox.h"

namespace fathom {

namespace {

// Ids that stand for something: a row of logits may be wider than the tokenizer and have holes.
std::vector<IdRange> sampleable_ids(int64_t vocab_size, const Tokenizer* tokenizer) {
  const int32_t width = static_cast<int32_t>(vocab_size);
  if (tokenizer == nullptr) return {{0, width}};
  std::vector<IdRange> ranges;
  const int32_t end = std::min(width, tokenizer->vocab_size());
  for (int32_t id = 0; id < end; ++id) {
    if (tokenizer->token_text(id).empty()) continue;
    if (ranges.empty() || ranges.back().end != id) ranges.push_back({id, id});
    ranges.back().end = id + 1;
  }
  return ranges;
}

Status check_timeout(const char* name, double seconds) {
  if (seconds >= 0 && std::isfinite(seconds)) return Status();
  return Status(Code::kInvalidArgument,
                fmt::format("{} is {}; it must be at least 0, and 0 means none.", name, seconds));
}

// Bounded, because all of them go into one event.
Status check_prompt_logprobs(int32_t n, size_t prompt_tokens, int32_t row_width) {
  constexpr size_t kMostEntries = size_t{1} << 24;
  if (n < -1 || n > row_width) {
    return Status(Code::kInvalidArgument,
                  fmt::format("prompt_logprobs is {}; it must be between 0 and {}, or -1 for none.",
                              n, row_width));
  }
  if (n > 0 && prompt_tokens > kMostEntries / static_cast<size_t>(n)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("prompt_logprobs is {} for a prompt of {} tokens; at most {} entries "
                              "are given in all.",
                              n, prompt_tokens, kMostEntries));
  }
  return Status();
}

Status check_options(const EngineOptions& options) {
  const auto at_least_one = [](const char* name, int value) {
    return value >= 1 ? Status()
                      : Status(Code::kInvalidArgument,
                               fmt::format("{} is {}; it must be at least 1.", name, value));
  };
  FATHOM_RETURN_IF_ERROR(at_least_one("max_num_seqs", options.max_num_seqs));
  FATHOM_RETURN_IF_ERROR(at_least_one("max_num_batched_tokens", options.max_num_batched_tokens));
  FATHOM_RETURN_IF_ERROR(at_least_one("max_queued_requests", options.max_queued_requests));
  FATHOM_RETURN_IF_ERROR(check_timeout("request_timeout_seconds", options.request_timeout_seconds));
  if (!KvCache::is_page_size(options.block_size)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("block_size is {}; use 8, 16, 32, 64 or 128.", options.block_size));
  }
  return Status();
}

}  // namespace

struct Engine::Impl {
  EngineParts parts;
  EngineOptions options;
  std::optional<PromptEncoder> prompts;
  LiveRequest::Shared shared;
  int64_t max_model_len = 0;
  uint64_t seed_key = 0;  // seeds of requests without one are drawn from it
  std::atomic<uint64_t> submitted{0};
  std::unique_ptr<StepLoop> loop;  // last: its thread uses the rest

  const ChatTemplate* chat_template() const {
    return parts.chat_template ? &*parts.chat_template : nullptr;
  }
  Result<SamplingParams> complete(const SamplingParams& given, int64_t prompt_tokens,
                                  uint64_t number, bool scores_prompt) const;
  Result<Submission> prepare(Request* request, uint64_t number) const;
  Result<std::vector<std::shared_ptr<TokenStream>>> submit(Request request,
                                                           std::optional<int> choices,
                                                           const ListenerOfChoice& listener);
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::assemble(EngineParts parts, const EngineOptions& options) {
  FATHOM_TRY(check_options(options));
  auto impl = std::make_unique<Impl>();
  Impl& engine = *impl;
  engine.parts = std::move(parts);
  engine.options = options;
  // Every running sequence must find a row in every step.
  engine.options.max_num_seqs = std::min(options.max_num_seqs, options.max_num_batched_tokens);
  StepModel& model = *engine.parts.model;
  const ModelConfig& config = model.config();
  FATHOM_ASSIGN(const MemoryPlan memory,
                plan_memory(engine.options, model.kv_layout(), config.max_position_embeddings,
                            available_memory_bytes()));
  engine.options.kv_memory_bytes = memory.kv_memory_bytes;
  engine.options.max_model_len = memory.max_model_len;
  engine.max_model_len = memory.max_model_len;

  const Tokenizer* tokenizer = engine.parts.tokenizer.get();
  engine.prompts.emplace(tokenizer, engine.chat_template(), config.vocab_size);
  engine.shared.tokenizer = tokenizer;
  engine.shared.stop_ids = collect_stop_ids(config, engine.parts.generation, tokenizer);
  engine.shared.vocabulary.row_width = static_cast<int32_t>(config.vocab_size);
  engine.shared.vocabulary.allowed = sampleable_ids(config.vocab_size, tokenizer);
  std::random_device entropy;
  engine.seed_key = (uint64_t{entropy()} << 32) | entropy();

  StepLoop::Parts loop;
  loop.model = &model;
  loop.shared = engine.shared;
  loop.scheduler = {engine.options.max_num_seqs, engine.options.max_num_batched_tokens,
                    memory.max_model_len, options.prefix_caching};
  loop.block_size = options.block_size;
  loop.page_count = memory.page_count;
  loop.max_queued_requests = options.max_queued_requests;
  FATHOM_ASSIGN(engine.loop, StepLoop::start(std::move(loop)));
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

// Checks the parameters and fills in max_tokens and the seed.
Result<SamplingParams> Engine::Impl::complete(const SamplingParams& given, int64_t prompt_tokens,
                                              uint64_t number, bool scores_prompt) const {
  FATHOM_TRY(validate_sampling(given, shared.vocabulary.row_width, scores_prompt));
  SamplingParams params = given;
  if (params.max_tokens < 0) {
    const int64_t rest = std::max<int64_t>(1, max_model_len - prompt_tokens);
    params.max_tokens = static_cast<int32_t>(std::min<int64_t>(rest, INT32_MAX));
  }
  if (!params.seed) {
    const auto bits =
        philox4x32_10({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), 0, 0},
                      {static_cast<uint32_t>(seed_key), static_cast<uint32_t>(seed_key >> 32)});
    // 53 bits: JSON readers keep them exactly.
    params.seed = ((uint64_t{bits[1]} << 32) | bits[0]) >> 11;
  }
  if (parts.tokenizer == nullptr && !params.stop.empty()) {
    return error(Code::kInvalidArgument,
                 "Stop strings need text, but the model's folder has no tokenizer.json; use "
                 "stop_token_ids.");
  }
  FATHOM_TRY(loop->check(prompt_tokens, params.max_tokens));
  return params;
}

// Everything of a submission but its stream.
Result<Submission> Engine::Impl::prepare(Request* request, uint64_t number) const {
  Submission submission;
  submission.submit_time = now_seconds();
  FATHOM_TRY(check_timeout("timeout_seconds", request->timeout_seconds));
  FATHOM_ASSIGN(submission.prompt, prompts->encode(request->prompt));
  FATHOM_TRY(check_prompt_logprobs(request->prompt_logprobs, submission.prompt.size(),
                                   shared.vocabulary.row_width));
  if (request->token_mask != nullptr && request->sampling.ignore_eos) {
    return error(Code::kInvalidArgument,
                 "ignore_eos does not go with structured output, which ends with end of sequence.");
  }
  FATHOM_ASSIGN(submission.sampling,
                complete(request->sampling, static_cast<int64_t>(submission.prompt.size()), number,
                         request->prompt_logprobs >= 0));
  submission.priority = request->priority;
  submission.cache_salt = std::move(request->cache_salt);
  submission.prompt_logprobs = request->prompt_logprobs;
  for (const double seconds : {request->timeout_seconds, options.request_timeout_seconds}) {
    if (seconds > 0) {
      submission.deadline = std::min(submission.deadline, submission.submit_time + seconds);
    }
  }
  return submission;
}

// `choices`: absent for one answer under the request's own id.
Result<std::vector<std::shared_ptr<TokenStream>>> Engine::Impl::submit(
    Request request, std::optional<int> choices, const ListenerOfChoice& listener) {
  const uint64_t number = submitted.fetch_add(1);
  FATHOM_ASSIGN(const Submission first, prepare(&request, number));
  const std::string id = request.id.empty() ? fmt::format("request-{}", number) : request.id;
  const size_t whole_answer = static_cast<size_t>(first.sampling.max_tokens) + 1;
  const size_t capacity =
      request.stream_capacity == 0 ? whole_answer : std::max<size_t>(1, request.stream_capacity);
  std::vector<Submission> submissions;
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < choices.value_or(1); ++i) {
    Submission& submission = submissions.emplace_back(first);
    submission.sampling.seed = choice_seed(*first.sampling.seed, i);
    // Who wants scores of the prompt computes it.
    if (choices > 1 && first.prompt_logprobs < 0) submission.choice = i;
    if (request.token_mask != nullptr) {
      submission.token_mask = i == 0 ? request.token_mask : request.token_mask->clone();
    }
    submission.stream =
        std::make_shared<TokenStream>(choices ? fmt::format("{}-{}", id, i) : id, capacity,
                                      listener ? listener(i) : request.on_event);
    streams.push_back(submission.stream);
  }
  FATHOM_TRY(loop->submit(std::move(submissions)));
  return streams;
}

uint64_t choice_seed(uint64_t seed, int i) {
  if (i == 0) return seed;
  const auto bits = philox4x32_10({static_cast<uint32_t>(i), 0, 0, 1},
                                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return ((uint64_t{bits[1]} << 32) | bits[0]) >> 11;
}

Result<std::shared_ptr<TokenStream>> Engine::submit(Request request) {
  auto streams = impl_->submit(std::move(request), std::nullopt, {});
  if (streams) return std::move(streams->front());
  impl_->loop->count_refusal();
  return error(std::move(streams).error());
}

Result<std::vector<std::shared_ptr<TokenStream>>> Engine::submit_many(
    Request request, int n, const ListenerOfChoice& listener) {
  constexpr int kMostChoices = 128;
  Result<std::vector<std::shared_ptr<TokenStream>>> streams =
      n >= 1 && n <= kMostChoices
          ? impl_->submit(std::move(request), n, listener)
          : error(Code::kInvalidArgument,
                  fmt::format("n is {}; it must be between 1 and {}.", n, kMostChoices));
  if (!streams) impl_->loop->count_refusal();
  return streams;
}

void Engine::cancel(const std::string& request_id) {
  impl_->loop->cancel(request_id);
}
void Engine::drain() {
  impl_->loop->drain();
}
EngineMetrics Engine::metrics() const {
  return impl_->loop->metrics();
}

Result<std::vector<int32_t>> Engine::encode_prompt(const Prompt& prompt) const {
  return impl_->prompts->encode(prompt);
}

const Tokenizer* Engine::tokenizer() const {
  return impl_->parts.tokenizer.get();
}
const ChatTemplate* Engine::chat_template() const {
  return impl_->chat_template();
}
const ModelConfig& Engine::config() const {
  return impl_->parts.model->config();
}
int64_t Engine::max_model_len() const {
  return impl_->max_model_len;
}
const EngineOptions& Engine::options() const {
  return impl_->options;
}
std::string Engine::fingerprint() const {
  return fmt::format("fp_{:016x}", impl_->parts.model->fingerprint());
}
SamplingParams Engine::default_sampling() const {
  SamplingParams sampling = impl_->parts.generation.sampling;
  sampling.seed = impl_->options.default_seed;
  return sampling;
}
const std::vector<int32_t>& Engine::stop_ids() const {
  return impl_->shared.stop_ids;
}
std::string Engine::name() const {
  return impl_->parts.name;
}

}  // namespace fathom
