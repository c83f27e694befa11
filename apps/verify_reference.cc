// Loads the model, compares, prints.
#include "apps/verify_reference.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/commands.h"
#include "apps/console.h"
#include "model/reference.h"
#include "weights/resolve.h"

namespace fathom::apps {
namespace {

using Json = nlohmann::ordered_json;

const char* outcome_name(CheckOutcome outcome) {
  switch (outcome) {
    case CheckOutcome::kPassed:
      return "ok";
    case CheckOutcome::kFailed:
      return "FAILED";
    case CheckOutcome::kNotChecked:
      return "not checked";
  }
  return "";
}

void print_table(const ReferenceReport& report) {
  Table table({{"check", Table::Align::kLeft},
               {"result", Table::Align::kLeft},
               {"MAE", Table::Align::kRight},
               {"max abs error", Table::Align::kRight},
               {"tolerance", Table::Align::kRight},
               {"note", Table::Align::kLeft}});
  int failed = 0, compared = 0;
  for (const ReferenceCheck& check : report.checks) {
    if (check.outcome == CheckOutcome::kNotChecked) continue;
    ++compared;
    failed += check.outcome == CheckOutcome::kFailed;
    table.add({check.name, outcome_name(check.outcome), fmt::format("{:.2e}", check.mae),
               fmt::format("{:.2e}", check.max_abs),
               check.tolerance > 0 ? fmt::format("{:.0e}", check.tolerance) : "equal", check.note});
  }
  print(table.text());
  std::string not_checked;
  for (const ReferenceCheck& check : report.checks) {
    if (check.outcome != CheckOutcome::kNotChecked) continue;
    not_checked +=
        fmt::format("  {}{}{}\n", check.name, check.note.empty() ? "" : ": ", check.note);
  }
  if (!not_checked.empty()) print("\nnot checked:\n" + not_checked);
  if (report.first_bad_layer >= 0) {
    print(fmt::format("\nfirst layer out of tolerance: {}\n", report.first_bad_layer));
  }
  print(fmt::format("\n{} of {} checks passed.\n", compared - failed, compared));
}

Json to_json(const ReferenceReport& report, const std::string& model,
             const std::string& reference) {
  Json json = {{"model", model},
               {"reference", reference},
               {"passed", report.passed()},
               {"first_bad_layer", nullptr},
               {"checks", Json::array()},
               {"not_checked", Json::array()}};
  if (report.first_bad_layer >= 0) json["first_bad_layer"] = report.first_bad_layer;
  for (const ReferenceCheck& check : report.checks) {
    if (check.outcome == CheckOutcome::kNotChecked) {
      json["not_checked"].push_back({{"name", check.name}, {"note", check.note}});
      continue;
    }
    json["checks"].push_back({{"name", check.name},
                              {"passed", check.outcome == CheckOutcome::kPassed},
                              {"mae", check.mae},
                              {"max_abs_error", check.max_abs},
                              {"tolerance", check.tolerance},
                              {"note", check.note}});
  }
  return json;
}

}  // namespace

int verify_reference(const EngineFlags& flags, const std::string& reference, bool json) {
  const auto folder = resolve_model(flags.model.model);
  if (!folder) return fail(folder.error());
  ProgressBar loading("Loading weights", ProgressBar::Unit::kBytes);
  ModelOptions options = model_options(flags.model);
  options.progress = loading.callback();
  const auto model = Model::load(*folder, options);
  loading.clear();
  if (!model) return fail(model.error());

  ProgressBar comparing("Comparing", ProgressBar::Unit::kCount);
  const auto report = check_reference(**model, reference, {flags.block_size, comparing.callback()});
  comparing.clear();
  if (!report) return fail(report.error());
  const bool compared = std::any_of(
      report->checks.begin(), report->checks.end(),
      [](const ReferenceCheck& check) { return check.outcome != CheckOutcome::kNotChecked; });
  if (!compared) {
    return fail({Code::kInvalidArgument, fmt::format("{} holds nothing to compare.", reference)});
  }
  json ? print_json(to_json(*report, flags.model.model, reference)) : print_table(*report);
  return report->passed() ? kExitOk : kExitFailure;
}

}  // namespace fathom::apps
