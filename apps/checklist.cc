// Runs and prints checks.
#include "apps/checklist.h"

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/console.h"
#include "core/clock.h"

namespace fathom::apps {
namespace {

constexpr int kNameWidth = 34;

const char* outcome_name(Verdict outcome) {
  switch (outcome) {
    case Verdict::kPassed:
      return "ok";
    case Verdict::kFailed:
      return "FAILED";
    case Verdict::kSkipped:
      return "skipped";
  }
  return "";
}

}  // namespace

bool Checklist::run(const std::string& name, const std::function<Result<CheckResult>()>& check) {
  if (stderr_is_terminal()) fmt::print(stderr, "\r\x1b[K{:<{}}  running ...", name, kNameWidth);
  const double start = now_seconds();
  Result<CheckResult> result = check();
  if (!result) result = CheckResult::failed(result.error().message());
  if (stderr_is_terminal()) fmt::print(stderr, "\r\x1b[K");
  const bool good = result->outcome != Verdict::kFailed;
  record(name, std::move(*result), now_seconds() - start);
  return good;
}

void Checklist::skip(const std::string& name, const std::string& why) {
  record(name, CheckResult::skipped(why), 0);
}

void Checklist::record(const std::string& name, CheckResult result, double seconds) {
  passed_ += result.outcome == Verdict::kPassed;
  failed_ += result.outcome == Verdict::kFailed;
  skipped_ += result.outcome == Verdict::kSkipped;
  if (!json_) {
    if (rows_.empty()) {
      print(
          fmt::format("{:<{}}  {:<7}  {:>7}  detail\n", "check", kNameWidth, "result", "seconds"));
    }
    print(fmt::format("{:<{}}  {:<7}  {:>7.1f}  {}\n", name, kNameWidth,
                      outcome_name(result.outcome), seconds, result.detail));
    flush_output();
  }
  rows_.push_back({{"name", name},
                   {"result", outcome_name(result.outcome)},
                   {"seconds", seconds},
                   {"detail", result.detail}});
}

void Checklist::finish(const std::string& model) {
  if (json_) {
    print_json({{"model", model}, {"passed", all_passed()}, {"checks", rows_}});
    return;
  }
  print(fmt::format("\n{} passed, {} failed, {} skipped: the model {}.\n", passed_, failed_,
                    skipped_, all_passed() ? "works as it should" : "does not work as it should"));
}

}  // namespace fathom::apps
