// `fathom bench`: decode and prefill speed as fractions of what this machine can do at most.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/cost.h"
#include "apps/interrupt.h"
#include "apps/options.h"
#include "apps/step_session.h"
#include "core/clock.h"
#include "kernels/api/machine.h"
#include "weights/resolve.h"

namespace fathom::apps {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kDecodePrompt = 32;  // tokens that each decoding sequence has before timing
constexpr int kDecodeSteps = 16;       // per repetition, at most
constexpr double kRepetition = 3;      // seconds after which a decode repetition ends early
constexpr double kMeasurement = 60;    // seconds after which no further repetition is begun
constexpr int64_t kChunk = 512;        // rows of a prefill step, as the engine's default
constexpr uint64_t kSeed = 1;

struct BenchOptions {
  ModelFlags model;
  std::vector<int> batches = {1, 4, 16};
  std::vector<int64_t> prompts = {256, 512, 2048};
  int repeat = 5;
  int block_size = 16;
  bool json = false;
};

// The figures of one run, in base units (bytes, seconds, operations). Each repetition is held
// against the ceilings measured right before and after it: on a shared machine they drift.
struct Decode {
  int batch = 0;
  double seconds_per_step = 0;  // median
  double fraction = 0;          // of read bandwidth: median over the repetitions
  uint64_t bytes_per_step = 0;
};
struct Prefill {
  int64_t tokens = 0;
  double seconds = 0;   // median
  double fraction = 0;  // of the FMA peak: median over the repetitions
  double flops = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Median over the repetitions of work / seconds / ceiling.
double median_fraction(double work, const std::vector<double>& seconds,
                       const std::vector<double>& ceilings) {
  std::vector<double> fractions;
  for (size_t i = 0; i < seconds.size(); ++i) fractions.push_back(work / seconds[i] / ceilings[i]);
  return median(std::move(fractions));
}

// VmHWM of this process: the most memory that was resident since the last reset.
uint64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

void reset_peak_resident() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

// What the machine can do right now, asked again and again between the measurements of the model.
class Gauge {
 public:
  explicit Gauge(Model& model) : model_(model) {}

  double read_bandwidth() {
    // The gauge reads a gigabyte of its own, which is not the model's memory.
    peak_ = std::max(peak_, peak_resident_bytes());
    bandwidths_.push_back(kernels::measure_read_bandwidth(model_.kernels()));
    reset_peak_resident();
    return bandwidths_.back();
  }
  double fma_peak() {
    peaks_.push_back(kernels::measure_fma_peak(model_.kernels()));
    return peaks_.back();
  }

  Model& model() { return model_; }
  double median_read_bandwidth() const { return median(bandwidths_); }
  double median_fma_peak() const { return median(peaks_); }
  uint64_t resident_peak() const { return std::max(peak_, peak_resident_bytes()); }

 private:
  Model& model_;
  std::vector<double> bandwidths_;
  std::vector<double> peaks_;
  uint64_t peak_ = 0;
};

// Distinct routed experts per layer in a step of these rows.
std::vector<double> experts_touched(const ModelConfig& config, const StepTrace& trace) {
  std::vector<double> touched(config.layers.size(), 0);
  for (const RouterTrace& router : trace.routers) {
    const std::set<int32_t> distinct(router.ids.begin(), router.ids.end());
    touched[static_cast<size_t>(router.layer)] = static_cast<double>(distinct.size());
  }
  return touched;
}

Result<Decode> measure_decode(Gauge& gauge, const BenchOptions& options, int batch) {
  Model& model = gauge.model();
  const ModelConfig& config = model.config();
  const int64_t prompt =
      std::clamp<int64_t>(config.max_position_embeddings - kDecodeSteps - 1, 1, kDecodePrompt);
  const int64_t capacity = prompt + kDecodeSteps + 1;
  FATHOM_ASSIGN(StepSession session,
                StepSession::create(model, options.block_size,
                                    std::vector<int64_t>(static_cast<size_t>(batch), capacity)));
  const std::vector<int32_t> tokens =
      pseudo_random_tokens(batch * capacity, config.vocab_size, kSeed);
  std::vector<float> logits;
  const auto rows_at = [&](int64_t at, int64_t count, bool wanted) {
    std::vector<SessionRows> rows;
    for (int sequence = 0; sequence < batch; ++sequence) {
      const int32_t* begin = tokens.data() + sequence * capacity + at;
      rows.push_back({sequence, {begin, static_cast<size_t>(count)}, {}});
      if (wanted) rows.back().logit_offsets = {0};
    }
    return rows;
  };
  std::vector<double> seconds;
  std::vector<double> ceilings;
  std::vector<double> touched(config.layers.size(), 0);
  double traced = 0;
  const double start = now_seconds();
  double before = gauge.read_bandwidth();
  for (int round = 0; round < options.repeat; ++round) {
    if (round > 0 && now_seconds() - start > kMeasurement) break;
    for (int sequence = 0; sequence < batch; ++sequence) session.rewind(sequence);
    FATHOM_TRY(session.step(rows_at(0, prompt, false), nullptr));
    StepTrace trace;  // the first decode step warms up and shows which experts are read
    FATHOM_TRY(session.step(rows_at(prompt, 1, true), &logits, &trace));
    const std::vector<double> now = experts_touched(config, trace);
    for (size_t i = 0; i < touched.size(); ++i) touched[i] += now[i];
    ++traced;
    const double begin = now_seconds();
    int steps = 0;
    while (steps < kDecodeSteps && (steps == 0 || now_seconds() - begin < kRepetition)) {
      FATHOM_TRY(session.step(rows_at(prompt + 1 + steps, 1, true), &logits));
      ++steps;
    }
    seconds.push_back((now_seconds() - begin) / steps);
    const double after = gauge.read_bandwidth();
    ceilings.push_back(std::max(before, after));
    before = after;
  }
  for (double& count : touched) count /= traced;
  const uint64_t bytes = step_weight_bytes(config, touched);
  return Decode{batch, median(seconds), median_fraction(double(bytes), seconds, ceilings), bytes};
}

Result<Prefill> measure_prefill(Gauge& gauge, const BenchOptions& options, int64_t count) {
  Model& model = gauge.model();
  FATHOM_ASSIGN(StepSession session, StepSession::create(model, options.block_size, {count}));
  const std::vector<int32_t> tokens =
      pseudo_random_tokens(count, model.config().vocab_size, kSeed + 1);
  std::vector<float> logits;
  std::vector<double> seconds;
  std::vector<double> ceilings;
  const double start = now_seconds();
  double before = gauge.fma_peak();
  // The first round warms up (pages of the cache, scratch memory) and is dropped if there is time.
  for (int round = 0; round <= options.repeat; ++round) {
    if (round > 0 && now_seconds() - start > kMeasurement) break;
    session.rewind(0);
    const double begin = now_seconds();
    for (int64_t at = 0; at < count; at += kChunk) {
      const int64_t length = std::min(kChunk, count - at);
      const bool last = at + length == count;
      FATHOM_TRY(session.step(0, {tokens.data() + at, static_cast<size_t>(length)},
                              last ? &logits : nullptr));
    }
    seconds.push_back(now_seconds() - begin);
    const double after = gauge.fma_peak();
    ceilings.push_back(std::max(before, after));
    before = after;
  }
  if (seconds.size() > 1) {
    seconds.erase(seconds.begin());
    ceilings.erase(ceilings.begin());
  }
  const double flops = prefill_flops(model.config(), count);
  return Prefill{count, median(seconds), median_fraction(flops, seconds, ceilings), flops};
}

Json report_json(const BenchOptions& options, Gauge& gauge, const std::vector<Decode>& decodes,
                 const std::vector<Prefill>& prefills) {
  Model& model = gauge.model();
  Json json = {{"model", options.model.model},
               {"machine",
                {{"threads", model.pool().size()},
                 {"isa", kernels::isa_name(model.kernels().isa())},
                 {"read_bandwidth_bytes_per_s", gauge.median_read_bandwidth()},
                 {"fma_peak_flop_per_s", gauge.median_fma_peak()}}}};
  json["decode"] = Json::array();
  for (const Decode& d : decodes) {
    const double rate = double(d.bytes_per_step) / d.seconds_per_step;
    json["decode"].push_back({{"batch", d.batch},
                              {"tok_per_s", d.batch / d.seconds_per_step},
                              {"seconds_per_step", d.seconds_per_step},
                              {"weight_bytes_per_step", d.bytes_per_step},
                              {"bytes_per_s", rate},
                              {"fraction_of_read_bandwidth", d.fraction}});
  }
  json["prefill"] = Json::array();
  for (const Prefill& p : prefills) {
    const double rate = p.flops / p.seconds;
    json["prefill"].push_back({{"tokens", p.tokens},
                               {"tok_per_s", double(p.tokens) / p.seconds},
                               {"seconds", p.seconds},
                               {"flop", p.flops},
                               {"flop_per_s", rate},
                               {"fraction_of_fma_peak", p.fraction}});
  }
  return json;
}

void print_report(const Json& json) {
  const Json& machine = json["machine"];
  const Json& load = json["load"];
  print(
      fmt::format("machine  {} threads, {}: reads {:.1f} GB/s, multiplies {:.0f} GFLOP/s (fp32)\n",
                  machine["threads"].get<int>(), machine["isa"].get<std::string>(),
                  machine["read_bandwidth_bytes_per_s"].get<double>() / 1e9,
                  machine["fma_peak_flop_per_s"].get<double>() / 1e9));
  print(fmt::format("load     {} of weights in {:.2f} s ({:.2f} GB/s)\n",
                    human_bytes(load["weight_bytes"].get<uint64_t>()),
                    load["seconds"].get<double>(), load["bytes_per_s"].get<double>() / 1e9));
  print(fmt::format("memory   {} at the peak, {} above the weights\n\n",
                    human_bytes(json["peak_rss_bytes"].get<uint64_t>()),
                    human_bytes(json["peak_rss_above_weights_bytes"].get<uint64_t>())));
  Table table({{"measurement", Table::Align::kLeft},
               {"tok/s", Table::Align::kRight},
               {"rate", Table::Align::kRight},
               {"of ceiling", Table::Align::kRight},
               {"ceiling", Table::Align::kLeft}});
  for (const Json& d : json["decode"]) {
    table.add({fmt::format("decode, batch {}", d["batch"].get<int>()),
               fmt::format("{:.2f}", d["tok_per_s"].get<double>()),
               fmt::format("{:.1f} GB/s", d["bytes_per_s"].get<double>() / 1e9),
               fmt::format("{:.1f}%", 100 * d["fraction_of_read_bandwidth"].get<double>()),
               fmt::format("read bandwidth; {} of weights a step",
                           human_bytes(d["weight_bytes_per_step"].get<uint64_t>()))});
  }
  for (const Json& p : json["prefill"]) {
    table.add({fmt::format("prefill, {} tokens", p["tokens"].get<int64_t>()),
               fmt::format("{:.2f}", p["tok_per_s"].get<double>()),
               fmt::format("{:.1f} GFLOP/s", p["flop_per_s"].get<double>() / 1e9),
               fmt::format("{:.1f}%", 100 * p["fraction_of_fma_peak"].get<double>()),
               fmt::format("FMA peak; {:.2f} GFLOP a token",
                           p["flop"].get<double>() / p["tokens"].get<double>() / 1e9)});
  }
  print(table.text());
}

Status run_measurements(Model& model, const BenchOptions& options, Json& json,
                        double load_seconds) {
  Gauge gauge(model);
  gauge.read_bandwidth();
  gauge.fma_peak();
  ProgressBar bar("Measuring", ProgressBar::Unit::kCount);
  const uint64_t total = options.batches.size() + options.prompts.size();
  uint64_t done = 0;
  bar.update(done, total);
  std::vector<Decode> decodes;
  for (const int batch : options.batches) {
    FATHOM_ASSIGN_OR_STATUS(Decode decode, measure_decode(gauge, options, batch));
    decodes.push_back(decode);
    bar.update(++done, total);
  }
  std::vector<Prefill> prefills;
  for (const int64_t tokens : options.prompts) {
    if (tokens <= model.config().max_position_embeddings) {
      FATHOM_ASSIGN_OR_STATUS(Prefill prefill, measure_prefill(gauge, options, tokens));
      prefills.push_back(prefill);
    } else {
      bar.clear();
      note(fmt::format("prefill of {} tokens left out: the model's context is {}.", tokens,
                       model.config().max_position_embeddings));
    }
    bar.update(++done, total);
  }
  const uint64_t peak = gauge.resident_peak();
  bar.clear();
  json = report_json(options, gauge, decodes, prefills);
  const uint64_t weights = model.weight_bytes();
  json["load"] = {{"weight_bytes", weights},
                  {"seconds", load_seconds},
                  {"bytes_per_s", double(weights) / load_seconds}};
  json["peak_rss_bytes"] = peak;
  json["peak_rss_above_weights_bytes"] = peak > weights ? peak - weights : 0;
  return {};
}

int bench(const BenchOptions& options) {
  install_interrupt_handler();
  const auto folder = resolve_model(options.model.model);
  if (!folder) return fail(folder.error());
  ModelOptions model_opts = model_options(options.model);
  std::unique_ptr<Model> model;
  const double start = now_seconds();
  {
    ProgressBar bar("Loading weights", ProgressBar::Unit::kBytes);
    model_opts.progress = bar.callback();
    auto loaded = Model::load(*folder, model_opts);
    bar.clear();
    if (!loaded) return fail(loaded.error());
    model = std::move(*loaded);
  }
  Json json;
  const Status status = run_measurements(*model, options, json, now_seconds() - start);
  if (!status.ok()) return fail(status);
  options.json ? print_json(json) : print_report(json);
  return kExitOk;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure decode and prefill speed against what this machine can do");
  add_model_flags(*command, options->model);
  command->add_option("--batch", options->batches, "Batch sizes of the decode measurements")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--prompt", options->prompts, "Prompt lengths of the prefill measurements")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  command
      ->add_option("--repeat", options->repeat,
                   "Repetitions of each measurement; medians are printed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--block-size", options->block_size, "Tokens per KV page")
      ->check(CLI::IsMember({8, 16, 32, 64, 128}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      "The machine is measured in the same run, with all threads: reading memory (ceiling of\n"
      "decode, which reads every weight it needs once a step; of the routed experts the distinct\n"
      "ones) and fp32 multiply-adds (ceiling of prefill). Steps of the model are timed, without\n"
      "tokenizer and sampling. Fractions are medians over the repetitions, each against the "
      "larger\n"
      "of the ceilings measured right before and right after it: shared machines drift.\n"
      "Examples:\n"
      "  fathom bench MODEL\n"
      "  fathom bench bench/configs/v2-lite --load-format dummy \\\n"
      "      --config-override n_routed_experts=8     (V2-Lite's cost in 6.2 GB)\n"
      "  fathom bench MODEL --batch 1 --prompt 512 --json");
  command->callback([options, &action] { action = [options] { return bench(*options); }; });
}

}  // namespace fathom::apps
