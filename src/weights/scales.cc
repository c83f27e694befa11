// Checks that FP8 weights and their block scales belong together.
#include "weights/scales.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "weights/convert.h"

namespace fathom {
namespace {

bool is_scale_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF8E8M0;
}

std::string describe(const TensorInfo& tensor) {
  return describe_tensor(tensor.dtype, tensor.shape);
}

}  // namespace

std::optional<ScaledWeight> pair_scale(const Checkpoint& checkpoint, const TensorInfo& weight,
                                       BlockShape block, OffenderReport& report) {
  const std::string& weight_file = checkpoint.file_name(weight.file);
  if (weight.dtype != DType::kF8E4M3 || weight.shape.size() != 2) {
    report.add({"wrong kind of scaled tensor", weight.name, "an F8_E4M3 matrix", describe(weight),
                weight_file});
    return std::nullopt;
  }
  ScaledWeight pair{&weight, nullptr, block};
  const std::vector<int64_t> grid{pair.grid_rows(), pair.grid_cols()};
  const std::string scale_name = weight.name + std::string(kScaleSuffix);
  const std::string expected = describe_tensor(DType::kF32, grid);
  pair.scale = checkpoint.find(scale_name);
  if (pair.scale == nullptr) {
    report.missing(scale_name, fmt::format("{}, the scales of {}", expected, weight.name));
    return std::nullopt;
  }
  const std::string& scale_file = checkpoint.file_name(pair.scale->file);
  if (!is_scale_type(pair.scale->dtype)) {
    report.add({"wrong element type", scale_name, "F32, BF16 or F8_E8M0", describe(*pair.scale),
                scale_file});
    return std::nullopt;
  }
  if (pair.scale->shape != grid) {
    report.add({"wrong shape", scale_name,
                fmt::format("{} for {} in blocks of {} x {}", expected, describe(weight),
                            block.rows, block.cols),
                describe(*pair.scale), scale_file});
    return std::nullopt;
  }
  return pair;
}

std::vector<ScaledWeight> pair_scales(const Checkpoint& checkpoint, BlockShape block,
                                      OffenderReport& report) {
  std::vector<ScaledWeight> pairs;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (tensor.dtype == DType::kF8E4M3) {
      if (auto pair = pair_scale(checkpoint, tensor, block, report)) pairs.push_back(*pair);
    }
    if (!tensor.name.ends_with(kScaleSuffix)) continue;
    const std::string weight_name = tensor.name.substr(0, tensor.name.size() - kScaleSuffix.size());
    const TensorInfo* weight = checkpoint.find(weight_name);
    if (weight != nullptr && weight->dtype == DType::kF8E4M3) continue;
    report.add({"scales without an FP8 weight", tensor.name,
                fmt::format("{} as F8_E4M3", weight_name),
                weight == nullptr ? "no such tensor" : describe(*weight),
                checkpoint.file_name(tensor.file)});
  }
  return pairs;
}

Result<std::vector<float>> read_scales(const Checkpoint& checkpoint, const ScaledWeight& pair) {
  const TensorInfo& scale = *pair.scale;
  std::vector<std::byte> stored(scale.bytes);
  FATHOM_TRY(checkpoint.read(scale, 0, stored.data(), stored.size()));
  std::vector<float> scales(static_cast<size_t>(element_count(scale)));
  to_float(scale.dtype, stored.data(), scales.data(), scales.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    if (std::isfinite(scales[i])) continue;
    return error(Code::kCorrupt,
                 fmt::format("tensor {} in {} has the scale {} at index {}; scales must be finite. "
                             "Download the file "
                             "again",
                             scale.name, checkpoint.file_name(scale.file), scales[i], i));
  }
  return scales;
}

}  // namespace fathom
