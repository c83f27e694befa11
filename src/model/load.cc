// Matches a checkpoint's tensors with the config's, refuses every difference, and loads.
#include "model/load.h"

#include <fmt/format.h>

#include <map>
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

// Compares the checkpoint with the slots of a config.
class Matcher {
 public:
  Matcher(const Checkpoint& checkpoint, const ModelConfig& config,
          const std::vector<TensorSlot>& slots)
      : checkpoint_(checkpoint), config_(config), slots_(slots) {}

  // The tensors to load; offenders go to the report.
  std::vector<PlacedTensor> run(std::vector<const TensorInfo*>& stored) {
    name_candidates();
    find_mtp_layers();
    std::vector<PlacedTensor> placed;
    for (const TensorSlot& slot : slots_) {
      const TensorInfo* tensor = checkpoint_.find(slot.name);
      if (tensor == nullptr) {
        if (is_required(slot)) report_.missing(slot.name, expected(slot));
        continue;
      }
      known_.insert(tensor->name);
      PlacedTensor match;
      match.slot = &slot;
      match.dtype = tensor->dtype;
      if (!check(slot, *tensor) || !pair(slot, *tensor, match)) continue;
      if (slot.use == TensorUse::kUnused) continue;
      placed.push_back(std::move(match));
      stored.push_back(tensor);
    }
    report_strangers();
    return placed;
  }

  Status status(const std::filesystem::path& model_dir) const {
    return report_.to_status(
        fmt::format("the weights in {} do not fit its config.json", model_dir.string()));
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
  bool pair(const TensorSlot& slot, const TensorInfo& tensor, PlacedTensor& match) {
    if (tensor.dtype != DType::kF8E4M3) return true;
    const BlockShape block{config_.fp8.block_rows, config_.fp8.block_cols};
    scale_names_.insert(tensor.name + std::string(kScaleSuffix));
    const std::optional<ScaledWeight> scaled = pair_scale(checkpoint_, tensor, block, report_);
    if (!scaled) return false;
    if (slot.use == TensorUse::kUnused) return true;
    Result<std::vector<float>> scales = read_scales(checkpoint_, *scaled);
    if (!scales) {
      report_.add({"unusable scales", scaled->scale->name, "", scales.error().message(),
                   checkpoint_.file_name(scaled->scale->file)});
      return false;
    }
    match.scales = std::move(*scales);
    return true;
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

}  // namespace

Status load_weights(const std::filesystem::path& model_dir, const ModelConfig& config,
                    ThreadPool& pool, const WeightLoadOptions& options, LoadedWeights& out) {
  CheckpointOptions checkpoint_options;
  checkpoint_options.mmap = options.mmap;
  FATHOM_ASSIGN_OR_STATUS(const Checkpoint checkpoint,
                          Checkpoint::open(model_dir, checkpoint_options));
  const std::vector<TensorSlot> slots = list_tensors(config, out.weights);
  Matcher matcher(checkpoint, config, slots);
  std::vector<const TensorInfo*> stored;
  std::vector<PlacedTensor> placed = matcher.run(stored);
  FATHOM_RETURN_IF_ERROR(matcher.status(model_dir));
  FATHOM_RETURN_IF_ERROR(place_tensors(config, placed, out.weights, out.arena));

  FirstError failure;
  std::vector<LoadJob> jobs(placed.size());
  for (size_t i = 0; i < placed.size(); ++i) {
    const PlacedTensor& tensor = placed[i];
    jobs[i].tensor = stored[i];
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
