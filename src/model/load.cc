// Matches a checkpoint's tensors with the config's, refuses every difference, and loads.
#include "model/load.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>
#include <unordered_set>

#include "model/bind.h"
#include "model/placement.h"
#include "weights/checkpoint.h"
#include "weights/loader.h"
#include "weights/report.h"
#include "weights/scales.h"

namespace fathom {
namespace {

bool is_plain_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// A slot and what the checkpoint stores for it.
struct Match {
  const TensorSlot* slot = nullptr;
  const TensorInfo* tensor = nullptr;
  std::optional<ScaledWeight> scaled;  // FP8
};

// Compares the headers of a checkpoint with the slots of a config.
class Matcher {
 public:
  Matcher(const Checkpoint& checkpoint, const ModelConfig& config,
          const std::vector<TensorSlot>& slots)
      : checkpoint_(checkpoint), config_(config), slots_(slots) {}

  // The tensors to load; offenders go to the report.
  std::vector<Match> run() {
    name_candidates();
    find_mtp_layers();
    std::vector<Match> matches;
    for (const TensorSlot& slot : slots_) {
      const TensorInfo* tensor = checkpoint_.find(slot.name);
      if (tensor == nullptr) {
        if (is_required(slot)) report_.missing(slot.name, expected(slot));
        continue;
      }
      known_.insert(tensor->name);
      Match match{&slot, tensor, std::nullopt};
      if (!check(slot, *tensor) || !pair(match)) continue;
      if (slot.use != TensorUse::kUnused) matches.push_back(match);
    }
    report_strangers();
    return matches;
  }

  Status status() const {
    return report_.to_status(
        fmt::format("the weights in {} do not fit its config.json", checkpoint_.folder().string()));
  }

 private:
  void name_candidates() {
    std::vector<std::string> stored;
    for (const TensorInfo& tensor : checkpoint_.tensors()) stored.push_back(tensor.name);
    report_.set_stored_names(std::move(stored));
    std::vector<std::string> model;
    for (const TensorSlot& slot : slots_) model.push_back(slot.name);
    report_.set_model_names(std::move(model));
  }

  void find_mtp_layers() {
    for (const TensorSlot& slot : slots_) {
      const bool mtp =
          slot.presence == TensorPresence::kMtp || slot.presence == TensorPresence::kMtpOptional;
      if (mtp && checkpoint_.find(slot.name) != nullptr) mtp_layers_.insert(slot.layer);
    }
  }

  bool is_required(const TensorSlot& slot) const {
    return slot.presence == TensorPresence::kRequired ||
           (slot.presence == TensorPresence::kMtp && mtp_layers_.count(slot.layer) != 0);
  }

  bool may_be_fp8(const TensorSlot& slot) const { return config_.fp8.enabled && slot.quantizable; }

  std::string expected(const TensorSlot& slot) const {
    return fmt::format("{} [{}]",
                       may_be_fp8(slot) ? "F8_E4M3, BF16, F16 or F32" : "BF16, F16 or F32",
                       fmt::join(slot.shape, ", "));
  }

  bool check(const TensorSlot& slot, const TensorInfo& tensor) {
    const bool type_ok =
        is_plain_float(tensor.dtype) || (tensor.dtype == DType::kF8E4M3 && may_be_fp8(slot));
    const bool shape_ok = tensor.shape == slot.shape;
    if (type_ok && shape_ok) return true;
    report_.add({shape_ok ? "wrong type of tensor" : "wrong shape of tensor", slot.name,
                 expected(slot), describe_tensor(tensor.dtype, tensor.shape),
                 checkpoint_.file_name(tensor.file)});
    return false;
  }

  // Finds the block scales of an FP8 tensor.
  bool pair(Match& match) {
    if (match.tensor->dtype != DType::kF8E4M3) return true;
    const BlockShape block{config_.fp8.block_rows, config_.fp8.block_cols};
    scale_names_.insert(match.tensor->name + std::string(kScaleSuffix));
    match.scaled = pair_scale(checkpoint_, *match.tensor, block, report_);
    return match.scaled.has_value();
  }

  void report_strangers() {
    for (const TensorInfo& tensor : checkpoint_.tensors()) {
      if (known_.count(tensor.name) != 0 || scale_names_.count(tensor.name) != 0) continue;
      report_.unexpected(tensor.name, describe_tensor(tensor.dtype, tensor.shape),
                         checkpoint_.file_name(tensor.file));
    }
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const std::vector<TensorSlot>& slots_;
  OffenderReport report_;
  std::set<int> mtp_layers_;  // those of which the checkpoint has something
  std::unordered_set<std::string> known_;
  std::unordered_set<std::string> scale_names_;
};

// Reads the scales of FP8 tensors; all unusable ones are listed.
Status read_all_scales(const Checkpoint& checkpoint, const std::vector<Match>& matches,
                       std::vector<PlacedTensor>& placed) {
  OffenderReport report;
  for (const Match& match : matches) {
    PlacedTensor tensor;
    tensor.slot = match.slot;
    tensor.dtype = match.tensor->dtype;
    if (match.scaled) {
      Result<std::vector<float>> scales = read_scales(checkpoint, *match.scaled);
      if (scales) {
        tensor.scales = std::move(*scales);
      } else {
        report.add({"unusable scales", match.scaled->scale->name, "", scales.error().message(),
                    checkpoint.file_name(match.scaled->scale->file)});
      }
    }
    placed.push_back(std::move(tensor));
  }
  return report.to_status(
      fmt::format("the scales in {} cannot be used", checkpoint.folder().string()));
}

}  // namespace

Status check_weights(const Checkpoint& checkpoint, const ModelConfig& config) {
  ModelWeights unused;
  const std::vector<TensorSlot> slots = list_tensors(config, unused);
  Matcher matcher(checkpoint, config, slots);
  matcher.run();
  return matcher.status();
}

Status load_weights(const std::filesystem::path& model_dir, const ModelConfig& config,
                    ThreadPool& pool, const WeightLoadOptions& options, LoadedWeights& out) {
  CheckpointOptions checkpoint_options;
  checkpoint_options.mmap = options.mmap;
  FATHOM_ASSIGN_OR_STATUS(const Checkpoint checkpoint,
                          Checkpoint::open(model_dir, checkpoint_options));
  const std::vector<TensorSlot> slots = list_tensors(config, out.weights);
  Matcher matcher(checkpoint, config, slots);
  const std::vector<Match> matches = matcher.run();
  FATHOM_RETURN_IF_ERROR(matcher.status());
  std::vector<PlacedTensor> placed;
  FATHOM_RETURN_IF_ERROR(read_all_scales(checkpoint, matches, placed));
  FATHOM_RETURN_IF_ERROR(place_tensors(config, placed, out.weights, out.arena));

  FirstError failure;
  std::vector<LoadJob> jobs(placed.size());
  for (size_t i = 0; i < placed.size(); ++i) {
    const PlacedTensor& tensor = placed[i];
    jobs[i].tensor = matches[i].tensor;
    jobs[i].rows = stored_rows(*tensor.slot);
    jobs[i].row_bytes = stored_row_bytes(*tensor.slot, tensor.dtype);
    jobs[i].sink = [&tensor, &failure](int64_t first_row, int64_t count, const std::byte* bytes,
                                       int) {
      failure.set(write_rows(tensor, first_row, count, bytes));
    };
  }
  LoadOptions load_options;
  load_options.progress = options.progress;
  FATHOM_ASSIGN_OR_STATUS(const LoadStats stats,
                          load_tensors(checkpoint, std::move(jobs), pool, load_options));
  FATHOM_RETURN_IF_ERROR(failure.get());
  if (config.tie_word_embeddings) FATHOM_RETURN_IF_ERROR(pack_tied_head(out.weights, pool));
  out.content_hash = stats.content_hash;
  out.stored_bytes = stats.bytes;
  return {};
}

}  // namespace fathom
