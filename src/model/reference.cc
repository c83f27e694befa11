// Recomputes everything a reference file holds and compares.
#include "model/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "core/file.h"
#include "model/reference_file.h"

namespace fathom {
namespace {

constexpr double kMeanTolerance = 1e-5;
constexpr double kMaxTolerance = 1e-4;
constexpr double kWeightTolerance = 1e-5;   // relative
constexpr double kLogprobTolerance = 1e-5;  // maximum

// What a later version will compute.
constexpr const char* kLater[] = {"mtp.", "w8a8.", "qat.", "index.", "long.index."};

// Cache memory for a few sequences of bounded length, filled front to back.
class ScratchCache {
 public:
  static Result<ScratchCache> make(const KvLayout& layout, int32_t page_size, int64_t sequences,
                                   int64_t tokens) {
    ScratchCache cache;
    cache.pages_each_ = (tokens + page_size - 1) / page_size;
    const int64_t pages = cache.pages_each_ * sequences;
    for (const KvGroup& group : layout.groups) {
      KvMemory memory;
      memory.page_size = page_size;
      memory.page_count = pages;
      memory.page_stride = (group.bytes_per_entry * static_cast<size_t>(page_size) + 63) / 64 * 64;
      FATHOM_ASSIGN(HugeBuffer buffer,
                    HugeBuffer::allocate(memory.page_stride * static_cast<size_t>(pages)));
      memory.base = buffer.data();
      cache.buffers_.push_back(std::move(buffer));
      cache.memory_.push_back(memory);
    }
    return cache;
  }

  PageTable table(int32_t sequences) const {
    PageTable table;
    table.pages.resize(static_cast<size_t>(pages_each_ * sequences));
    std::iota(table.pages.begin(), table.pages.end(), 0);
    for (int32_t s = 0; s <= sequences; ++s) {
      table.begin.push_back(static_cast<int32_t>(pages_each_ * s));
    }
    return table;
  }
  const std::vector<KvMemory>& memory() const { return memory_; }

 private:
  std::vector<HugeBuffer> buffers_;
  std::vector<KvMemory> memory_;
  int64_t pages_each_ = 0;
};

// Rows [first, first + length) of each of `sequences` sequences of `tokens` [sequences, length].
StepPlan make_plan(const Model& model, const ScratchCache& cache, std::span<const int32_t> tokens,
                   int32_t sequences, int32_t first) {
  StepPlan plan;
  const auto length = static_cast<int32_t>(tokens.size()) / sequences;
  for (int32_t s = 0; s < sequences; ++s) {
    for (int32_t i = 0; i < length; ++i) {
      plan.tokens.push_back(tokens[static_cast<size_t>(s * length + i)]);
      plan.positions.push_back(first + i);
      plan.sequences.push_back(s);
    }
  }
  plan.page_tables.assign(model.kv_layout().groups.size(), cache.table(sequences));
  return plan;
}

struct Difference {
  double mae = 0;
  double max_abs = 0;
  double rms = 0;  // of the reference
};

// A value that is not finite counts as an infinite difference.
Difference compare(std::span<const float> got, std::span<const float> want) {
  Difference d;
  double squares = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    double error = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (!std::isfinite(error)) error = std::numeric_limits<double>::infinity();
    d.mae += error;
    d.max_abs = std::max(d.max_abs, error);
    squares += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  const double n = std::max<double>(1, static_cast<double>(want.size()));
  d.mae /= n;
  d.rms = std::sqrt(squares / n);
  return d;
}

double logprob(std::span<const float> logits, int32_t token) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float value : logits) sum += std::exp(static_cast<double>(value) - top);
  return static_cast<double>(logits[static_cast<size_t>(token)]) - top - std::log(sum);
}

class ReferenceRun {
 public:
  ReferenceRun(Model& model, const ReferenceFile& file, const ReferenceOptions& options)
      : model_(model), file_(file), options_(options) {
    for (std::string& name : file.names()) open_.insert(std::move(name));
    total_ = open_.size();
  }

  Result<ReferenceReport> run() {
    FATHOM_TRY(check_batch(""));
    FATHOM_TRY(check_batch("long."));
    for (int j = 0; file_.has(fmt::format("gen.{}.prompt_ids", j)); ++j) {
      FATHOM_TRY(check_continuation(fmt::format("gen.{}", j)));
    }
    check_leftovers();
    return std::move(report_);
  }

 private:
  // One pass over `prefix`input_ids, compared with everything under that prefix.
  Status check_batch(const std::string& prefix) {
    const std::string ids_name = prefix + "input_ids";
    if (!file_.has(ids_name)) return {};
    const std::vector<int64_t> shape = file_.shape(ids_name);
    FATHOM_ASSIGN_OR_STATUS(const std::vector<int32_t> ids, file_.ints(ids_name));
    take(ids_name);
    if (shape.size() != 2 || ids.empty() || ids.size() > (size_t{1} << 24)) {
      return {Code::kInvalidArgument, ids_name + " of the reference is not a matrix of token ids"};
    }
    const auto sequences = static_cast<int32_t>(shape[0]);
    FATHOM_ASSIGN_OR_STATUS(
        const ScratchCache cache,
        ScratchCache::make(model_.kv_layout(), options_.page_size, sequences, shape[1]));
    StepPlan plan = make_plan(model_, cache, ids, sequences, 0);
    std::vector<int32_t> wanted;  // rows of the reference's logits, in its order
    FATHOM_RETURN_IF_ERROR(choose_logit_rows(prefix, shape, wanted));
    plan.logit_rows = wanted;
    std::sort(plan.logit_rows.begin(), plan.logit_rows.end());
    plan.logit_rows.erase(std::unique(plan.logit_rows.begin(), plan.logit_rows.end()),
                          plan.logit_rows.end());
    std::vector<float> logits(plan.logit_rows.size() *
                              static_cast<size_t>(model_.config().vocab_size));
    StepTrace trace;
    StepOutput output;
    output.logits = logits.data();
    output.trace = &trace;
    FATHOM_RETURN_IF_ERROR(model_.step(plan, cache.memory(), output));

    check_values(prefix + "hidden.embed", trace.embed, true, -1);
    for (size_t i = 0; i < trace.hidden.size(); ++i) {
      const auto layer = static_cast<int>(i);
      check_values(fmt::format("{}hidden.{}", prefix, layer), trace.hidden[i], true, layer);
      for (const RouterTrace& router : trace.routers) {
        if (router.layer == layer) check_router(prefix, router);
      }
    }
    check_values(prefix + "hidden.norm", trace.norm, true, -1);
    check_values(prefix + "logits", in_order(plan.logit_rows, wanted, logits), false, -1);
    return {};
  }

  // All rows, or those at `prefix`positions of every sequence.
  Status choose_logit_rows(const std::string& prefix, const std::vector<int64_t>& shape,
                           std::vector<int32_t>& wanted) {
    if (!file_.has(prefix + "logits")) return {};
    const auto length = static_cast<int32_t>(shape[1]);
    std::vector<int32_t> positions(static_cast<size_t>(length));
    std::iota(positions.begin(), positions.end(), 0);
    if (file_.has(prefix + "positions")) {
      FATHOM_ASSIGN_OR_STATUS(positions, file_.ints(prefix + "positions"));
      take(prefix + "positions");
    }
    for (int32_t s = 0; s < static_cast<int32_t>(shape[0]); ++s) {
      for (const int32_t p : positions) {
        if (p < 0 || p >= length) {
          return {Code::kInvalidArgument, prefix +
                                              "positions of the reference has a position "
                                              "beyond its input_ids"};
        }
        wanted.push_back(s * length + p);
      }
    }
    return {};
  }

  // Logits of `rows` (ascending) as those of `wanted`.
  std::vector<float> in_order(const std::vector<int32_t>& rows, const std::vector<int32_t>& wanted,
                              const std::vector<float>& logits) const {
    if (rows == wanted) return logits;
    const int64_t vocab = model_.config().vocab_size;
    std::vector<float> ordered;
    for (const int32_t row : wanted) {
      const auto place = std::lower_bound(rows.begin(), rows.end(), row) - rows.begin();
      ordered.insert(ordered.end(), logits.begin() + place * vocab,
                     logits.begin() + (place + 1) * vocab);
    }
    return ordered;
  }

  // Values of one tensor, if the file has it. Layers out of tolerance are remembered.
  void check_values(const std::string& name, std::span<const float> got, bool relative, int layer) {
    if (!file_.has(name)) return;
    take(name);
    ReferenceCheck check;
    check.name = name;
    check.tolerance = kMeanTolerance;
    const std::optional<std::vector<float>> want = load_floats(name, got.size(), check);
    if (want) {
      const Difference d = compare(got, *want);
      const double scale = relative ? std::max(1.0, d.rms) : 1.0;
      check.mae = d.mae;
      check.max_abs = d.max_abs;
      check.tolerance = kMeanTolerance * scale;
      if (!(d.mae < check.tolerance && d.max_abs < kMaxTolerance * scale)) {
        check.outcome = CheckOutcome::kFailed;
      }
    }
    finish(std::move(check), layer);
  }

  void check_router(const std::string& prefix, const RouterTrace& router) {
    const std::string base = fmt::format("{}router.{}.", prefix, router.layer);
    check_values(base + "logits", router.logits, true, router.layer);
    if (!file_.has(base + "ids")) return;
    take(base + "ids");
    ReferenceCheck check;
    check.name = base + "ids";
    const Result<std::vector<int32_t>> want = file_.ints(base + "ids");
    if (!want || want->size() != router.ids.size()) {
      check.outcome = CheckOutcome::kFailed;
      check.note =
          want ? fmt::format("has {} values, the model gives {}", want->size(), router.ids.size())
               : want.error().message();
      finish(std::move(check), router.layer);
      return;
    }
    std::vector<float> sorted_weights;
    const size_t rows_off = count_other_choices(router, *want, sorted_weights);
    if (rows_off > 0) {
      check.outcome = CheckOutcome::kFailed;
      check.note = fmt::format("{} rows choose other experts", rows_off);
    }
    finish(std::move(check), router.layer);
    check_router_weights(base + "weights", sorted_weights, router.layer);
  }

  // Rows whose set of experts differs. Their weights come out as NaN, those of the others in
  // ascending order of expert ids.
  size_t count_other_choices(const RouterTrace& router, const std::vector<int32_t>& want,
                             std::vector<float>& sorted_weights) const {
    const auto k = static_cast<size_t>(
        model_.config().layers[static_cast<size_t>(router.layer)].ffn.num_experts_per_tok);
    size_t rows_off = 0;
    std::vector<std::pair<int32_t, float>> row(k);
    for (size_t first = 0; first < want.size(); first += k) {
      for (size_t s = 0; s < k; ++s) row[s] = {router.ids[first + s], router.weights[first + s]};
      std::sort(row.begin(), row.end());
      bool same = true;
      for (size_t s = 0; s < k; ++s) same = same && row[s].first == want[first + s];
      rows_off += same ? 0 : 1;
      for (size_t s = 0; s < k; ++s) {
        sorted_weights.push_back(same ? row[s].second : std::numeric_limits<float>::quiet_NaN());
      }
    }
    return rows_off;
  }

  void check_router_weights(const std::string& name, std::span<const float> got, int layer) {
    if (!file_.has(name)) return;
    take(name);
    ReferenceCheck check;
    check.name = name;
    check.tolerance = kWeightTolerance;
    const std::optional<std::vector<float>> want = load_floats(name, got.size(), check);
    if (want) {
      check.mae = compare(got, *want).mae;
      for (size_t i = 0; i < want->size(); ++i) {
        const double floor = std::numeric_limits<float>::min();
        const double error = std::abs(static_cast<double>(got[i]) - (*want)[i]) /
                             std::max(std::abs(static_cast<double>((*want)[i])), floor);
        check.max_abs = std::isnan(error) ? std::numeric_limits<double>::infinity()
                                          : std::max(check.max_abs, error);
      }
      if (!(check.max_abs <= kWeightTolerance)) check.outcome = CheckOutcome::kFailed;
    }
    finish(std::move(check), layer);
  }

  // A greedy continuation with the cache: the prompt in one step, then token by token.
  Status check_continuation(const std::string& base) {
    FATHOM_ASSIGN_OR_STATUS(const std::vector<int32_t> prompt, file_.ints(base + ".prompt_ids"));
    FATHOM_ASSIGN_OR_STATUS(const std::vector<int32_t> want, file_.ints(base + ".output_ids"));
    std::vector<float> want_logprobs;
    if (file_.has(base + ".logprobs")) {
      FATHOM_ASSIGN_OR_STATUS(want_logprobs, file_.floats(base + ".logprobs"));
    }
    for (const char* part : {".prompt_ids", ".output_ids", ".logprobs"}) take(base + part);
    ReferenceCheck check;
    check.name = base;
    check.tolerance = kLogprobTolerance;
    if (prompt.empty() || want.empty()) {
      check.outcome = CheckOutcome::kFailed;
      check.note = "has no prompt or no output";
      finish(std::move(check), -1);
      return {};
    }
    std::vector<int32_t> got;
    std::vector<float> got_logprobs;
    FATHOM_RETURN_IF_ERROR(generate(prompt, want.size(), got, got_logprobs));
    const auto parting = std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin();
    const auto same = static_cast<size_t>(parting);
    if (same < want.size()) {
      check.outcome = CheckOutcome::kFailed;
      check.note = fmt::format("token {} is {} instead of {}", same, got[same], want[same]);
    }
    if (!want_logprobs.empty()) {
      const size_t n = std::min(same, want_logprobs.size());
      const Difference d =
          compare(std::span(got_logprobs).first(n), std::span(want_logprobs).first(n));
      check.mae = d.mae;
      check.max_abs = d.max_abs;
      if (!(d.max_abs < kLogprobTolerance)) check.outcome = CheckOutcome::kFailed;
    }
    finish(std::move(check), -1);
    return {};
  }

  Status generate(const std::vector<int32_t>& prompt, size_t count, std::vector<int32_t>& tokens,
                  std::vector<float>& logprobs) {
    FATHOM_ASSIGN_OR_STATUS(const ScratchCache cache,
                            ScratchCache::make(model_.kv_layout(), options_.page_size, 1,
                                               static_cast<int64_t>(prompt.size() + count)));
    std::vector<int32_t> input = prompt;
    int32_t position = 0;
    std::vector<float> logits(static_cast<size_t>(model_.config().vocab_size));
    while (tokens.size() < count) {
      StepPlan plan = make_plan(model_, cache, input, 1, position);
      plan.logit_rows = {plan.rows() - 1};
      StepOutput output;
      output.logits = logits.data();
      FATHOM_RETURN_IF_ERROR(model_.step(plan, cache.memory(), output));
      position += plan.rows();
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      tokens.push_back(static_cast<int32_t>(best));
      logprobs.push_back(static_cast<float>(logprob(logits, tokens.back())));
      input = {tokens.back()};
    }
    return {};
  }

  // The reference's values if there are as many as computed ones; else the check fails.
  std::optional<std::vector<float>> load_floats(const std::string& name, size_t count,
                                                ReferenceCheck& check) {
    Result<std::vector<float>> want = file_.floats(name);
    if (want && want->size() == count) return std::move(*want);
    check.outcome = CheckOutcome::kFailed;
    check.note = want ? fmt::format("has {} values, the model gives {}", want->size(), count)
                      : want.error().message();
    return std::nullopt;
  }

  // Everything that no check has taken: informative, for later, or unknown.
  void check_leftovers() {
    for (const std::string& name : std::set<std::string>(open_)) {
      if (name.size() > 7 && name.compare(name.size() - 7, 7, ".margin") == 0) continue;
      ReferenceCheck check;
      check.name = name;
      const auto later =
          std::find_if(std::begin(kLater), std::end(kLater),
                       [&](const char* prefix) { return name.rfind(prefix, 0) == 0; });
      if (later != std::end(kLater)) {
        check.outcome = CheckOutcome::kNotChecked;
        check.note = "this version does not compute it";
      } else {
        check.outcome = CheckOutcome::kFailed;
        check.note = "the model has nothing of this name";
      }
      finish(std::move(check), -1);
    }
  }

  void take(const std::string& name) { open_.erase(name); }

  void finish(ReferenceCheck check, int layer) {
    if (check.outcome == CheckOutcome::kFailed && layer >= 0 &&
        (report_.first_bad_layer < 0 || layer < report_.first_bad_layer)) {
      report_.first_bad_layer = layer;
    }
    report_.checks.push_back(std::move(check));
    if (options_.progress) options_.progress(total_ - open_.size(), total_);
  }

  Model& model_;
  const ReferenceFile& file_;
  const ReferenceOptions& options_;
  std::set<std::string> open_;  // tensors not yet used
  size_t total_ = 0;
  ReferenceReport report_;
};

}  // namespace

bool ReferenceReport::passed() const {
  return std::none_of(checks.begin(), checks.end(), [](const ReferenceCheck& check) {
    return check.outcome == CheckOutcome::kFailed;
  });
}

Result<ReferenceReport> check_reference(Model& model, const std::filesystem::path& file,
                                        const ReferenceOptions& options) {
  FATHOM_ASSIGN(const ReferenceFile reference, ReferenceFile::open(file));
  return ReferenceRun(model, reference, options).run();
}

}  // namespace fathom
