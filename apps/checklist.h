// The bring-up checklist of `fathom verify`: named checks, run in order, printed as they finish.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/options.h"
#include "core/status.h"

namespace fathom::apps {

enum class Verdict { kPassed, kFailed, kSkipped };

struct CheckResult {
  Verdict outcome = Verdict::kPassed;
  std::string detail;

  static CheckResult passed(std::string detail) { return {Verdict::kPassed, std::move(detail)}; }
  static CheckResult failed(std::string detail) { return {Verdict::kFailed, std::move(detail)}; }
  static CheckResult skipped(std::string why) { return {Verdict::kSkipped, std::move(why)}; }
};

// Runs checks and reports: a table row each on stdout (unless `json`), what is running on stderr if
// that is a terminal. Used by one thread.
class Checklist {
 public:
  explicit Checklist(bool json) : json_(json) {}

  // A failed Status counts as a failed check with its message.
  bool run(const std::string& name, const std::function<Result<CheckResult>()>& check);
  void skip(const std::string& name, const std::string& why);
  bool all_passed() const { return failed_ == 0; }
  // The closing line of the table, or the JSON object.
  void finish(const std::string& model);

 private:
  void record(const std::string& name, CheckResult result, double seconds);

  bool json_;
  int passed_ = 0, failed_ = 0, skipped_ = 0;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

struct ChecklistOptions {
  EngineFlags engine;
  double time_limit = 60;  // seconds for each check that could take long; 0 = none
  int64_t context = 0;     // tokens of the long prompt; 0 = the model's full context
  bool json = false;
};

// Everything from loading to the full context. Returns an exit code.
int run_checklist(const ChecklistOptions& options);

}  // namespace fathom::apps
