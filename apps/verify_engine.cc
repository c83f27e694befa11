// Runs requests through the engine and looks at what comes back and what stays behind.
#include "apps/verify_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/console.h"
#include "apps/step_session.h"
#include "core/clock.h"
#include "core/file.h"

namespace fathom::apps {
namespace {

constexpr int64_t kPromptTokens = 20;
constexpr int32_t kAnswerTokens = 32;
constexpr int kWarmRequests = 10, kAllRequests = 100;
// The allocator may keep this much more after 90 further requests; a leak of one request's tokens,
// pages or strings would show as page counts or as steady growth.
constexpr int64_t kMemorySlack = int64_t{8} << 20;
constexpr double kPollSeconds = 0.1;

}  // namespace

Request EngineChecks::request(int64_t prompt_tokens, int32_t max_tokens,
                              uint64_t prompt_seed) const {
  const int64_t room = std::max<int64_t>(1, engine_.max_model_len() - max_tokens);
  Request request;
  request.prompt =
      pseudo_random_tokens(std::min(prompt_tokens, room), engine_.config().vocab_size, prompt_seed);
  request.sampling.temperature = 0;
  request.sampling.max_tokens =
      static_cast<int32_t>(std::min<int64_t>(max_tokens, engine_.max_model_len() - 1));
  request.sampling.ignore_eos = true;
  return request;
}

Result<std::vector<EngineChecks::Answer>> EngineChecks::answer(std::vector<Request> requests) {
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (Request& one : requests) {
    FATHOM_ASSIGN(std::shared_ptr<TokenStream> stream, engine_.submit(std::move(one)));
    streams.push_back(std::move(stream));
  }
  std::vector<Answer> answers;
  for (const auto& stream : streams) {
    Answer answer;
    while (std::optional<StreamEvent> event = stream->next()) {
      answer.ids.insert(answer.ids.end(), event->token_ids.begin(), event->token_ids.end());
      if (event->finished) answer.end = std::move(*event);
    }
    if (answer.end.finish_reason == FinishReason::kError) return error(answer.end.error);
    answers.push_back(std::move(answer));
  }
  return answers;
}

Result<CheckResult> EngineChecks::reaches_max_tokens() {
  const Request wanted = request(kPromptTokens, kAnswerTokens, 1);
  const int32_t max_tokens = wanted.sampling.max_tokens;
  FATHOM_ASSIGN(const std::vector<Answer> answers, answer({wanted}));
  const Answer& got = answers[0];
  const std::string what = fmt::format("{} of {} tokens, finish reason {}", got.ids.size(),
                                       max_tokens, finish_reason_name(got.end.finish_reason));
  const bool good =
      int64_t(got.ids.size()) == max_tokens && got.end.finish_reason == FinishReason::kLength;
  return good ? CheckResult::passed(what) : CheckResult::failed(what);
}

Result<CheckResult> EngineChecks::greedy_repeats() {
  const Request wanted = request(kPromptTokens, kAnswerTokens, 2);
  FATHOM_ASSIGN(const std::vector<Answer> first, answer({wanted}));
  // The second time beside others, which must not matter.
  FATHOM_ASSIGN(const std::vector<Answer> second,
                answer({request(33, kAnswerTokens, 3), wanted, request(5, kAnswerTokens, 4)}));
  for (size_t i = 0; i < first[0].ids.size(); ++i) {
    if (i >= second[1].ids.size() || first[0].ids[i] != second[1].ids[i]) {
      return CheckResult::failed(fmt::format("the second run differs from token {} on", i));
    }
  }
  return CheckResult::passed(
      fmt::format("{} tokens, alone and beside two other requests", first[0].ids.size()));
}

Result<CheckResult> EngineChecks::sampling_repeats() {
  Request wanted = request(kPromptTokens, kAnswerTokens, 5);
  wanted.sampling.temperature = 1;
  wanted.sampling.seed = 7;
  FATHOM_ASSIGN(const std::vector<Answer> first, answer({wanted}));
  FATHOM_ASSIGN(const std::vector<Answer> second, answer({request(40, 8, 6), wanted}));
  return first[0].ids == second[1].ids
             ? CheckResult::passed(
                   fmt::format("{} tokens at temperature 1 with one seed", first[0].ids.size()))
             : CheckResult::failed("two runs with the same seed gave different tokens");
}

Status EngineChecks::answer_many(int count, int first) {
  constexpr int kAtOnce = 10;
  for (int done = 0; done < count; done += kAtOnce) {
    std::vector<Request> requests;
    for (int i = done; i < std::min(count, done + kAtOnce); ++i) {
      requests.push_back(request(3 + (first + i) % 9, 4, uint64_t(first + i)));
    }
    const Result<std::vector<Answer>> answers = answer(std::move(requests));
    if (!answers) return answers.error();
  }
  return {};
}

Result<CheckResult> EngineChecks::memory_stays() {
  FATHOM_TRY(answer_many(kWarmRequests, 0));
  const EngineMetrics before = engine_.metrics();
  const int64_t resident_before = static_cast<int64_t>(resident_memory_bytes());
  FATHOM_TRY(answer_many(kAllRequests - kWarmRequests, kWarmRequests));
  const EngineMetrics after = engine_.metrics();
  const int64_t growth = static_cast<int64_t>(resident_memory_bytes()) - resident_before;
  const std::string detail =
      fmt::format("{} pages in use after {} requests, {} after {}; resident memory {}{}",
                  before.kv_pages_used, kWarmRequests, after.kv_pages_used, kAllRequests,
                  growth < 0 ? "-" : "+", human_bytes(uint64_t(growth < 0 ? -growth : growth)));
  const bool good = after.kv_pages_used == before.kv_pages_used && after.running == 0 &&
                    after.waiting == 0 && growth <= kMemorySlack;
  return good ? CheckResult::passed(detail) : CheckResult::failed(detail);
}

Result<CheckResult> EngineChecks::speed() {
  const double start = now_seconds();
  FATHOM_ASSIGN(const std::shared_ptr<TokenStream> stream,
                engine_.submit(request(kPromptTokens, 100, 8)));
  bool cancelled = false;
  std::optional<StreamEvent> event;
  while (!event || !event->finished) {
    event = stream->next(kPollSeconds);
    if (!cancelled && time_limit_ > 0 && now_seconds() - start > time_limit_) {
      engine_.cancel(stream->request_id());
      cancelled = true;
    }
  }
  if (event->finish_reason == FinishReason::kError) return error(event->error);
  const Usage& usage = event->usage;
  const double seconds = usage.decode_seconds;
  return CheckResult::passed(fmt::format(
      "{} tokens in {:.2f} s{}{}", usage.completion_tokens, seconds,
      seconds > 0 ? fmt::format(", {:.1f} tok/s", (usage.completion_tokens - 1) / seconds) : "",
      cancelled ? " (stopped by --time-limit)" : ""));
}

}  // namespace fathom::apps
