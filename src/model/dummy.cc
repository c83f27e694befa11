// Random weights of any config, made as fast as memory takes them (`--load-format dummy`).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>

#include "model/bind.h"
#include "model/load.h"
#include "model/placement.h"

namespace fathom {
namespace {

constexpr double kStdDev = 0.02;
constexpr int64_t kUnitBytes = 1 << 20;  // stored bytes that one unit of work makes
// FP8 codes are drawn with this standard deviation; the block scale brings them to kStdDev.
constexpr double kFp8StdDev = 64;

uint64_t mix(uint64_t x) {  // splitmix64's finaliser
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint16_t float_to_f16(float value) {  // normal numbers only; rounds to nearest even
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = (bits & 0x7fffffffu) - (uint32_t{112} << 23);
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | rounded >> 13);
}

// The e4m3 code nearest to value, |value| <= 448.
uint8_t float_to_e4m3(float value) {
  uint8_t best = 0;
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    if ((byte & 0x7f) == 0x7f) continue;  // NaN
    if (std::abs(f8_e4m3_to_float(byte) - value) < std::abs(f8_e4m3_to_float(best) - value)) {
      best = byte;
    }
  }
  return best;
}

// 256 equally likely values of a normal distribution, encoded in `dtype`: a random byte picks one.
class NormalTable {
 public:
  explicit NormalTable(DType dtype) : width_(dtype_size(dtype)) {
    for (size_t i = 0; i < 256; ++i) {
      const double z = quantile((static_cast<double>(i) + 0.5) / 256);
      encode(dtype, z, codes_[i].data());
    }
  }

  void fill(uint64_t stream, size_t count, std::byte* out) const {
    switch (width_) {
      case 1:
        return fill_as<uint8_t>(stream, count, out);
      case 2:
        return fill_as<uint16_t>(stream, count, out);
      default:
        return fill_as<uint32_t>(stream, count, out);
    }
  }

 private:
  // The width as a type: billions of elements go through here.
  template <typename Code>
  void fill_as(uint64_t stream, size_t count, std::byte* out) const {
    std::array<Code, 256> codes;
    for (size_t i = 0; i < 256; ++i) std::memcpy(&codes[i], codes_[i].data(), sizeof(Code));
    for (size_t i = 0; i < count; i += 8) {
      uint64_t word = mix(stream + 0x9e3779b97f4a7c15u * (i / 8 + 1));
      Code eight[8];
      for (Code& code : eight) {
        code = codes[word & 0xff];
        word >>= 8;
      }
      std::memcpy(out + i * sizeof(Code), eight, std::min<size_t>(count - i, 8) * sizeof(Code));
    }
  }

  static double quantile(double p) {  // of the standard normal distribution, by bisection
    double low = -6;
    double high = 6;
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
    }
    return (low + high) / 2;
  }

  static void encode(DType dtype, double z, std::byte* out) {
    const auto value = static_cast<float>(z * kStdDev);
    if (dtype == DType::kF32) {
      std::memcpy(out, &value, sizeof(value));
    } else if (dtype == DType::kF8E4M3) {
      const uint8_t code = float_to_e4m3(static_cast<float>(z * kFp8StdDev));
      std::memcpy(out, &code, sizeof(code));
    } else {
      const uint16_t code = dtype == DType::kF16 ? float_to_f16(value) : float_to_bf16(value);
      std::memcpy(out, &code, sizeof(code));
    }
  }

  size_t width_;
  std::array<std::array<std::byte, 4>, 256> codes_{};
};

// A run of rows of one tensor.
struct Unit {
  const PlacedTensor* tensor = nullptr;
  int64_t first_row = 0;
  int64_t rows = 0;
};

std::vector<Unit> cut_units(const std::vector<PlacedTensor>& tensors) {
  std::vector<Unit> units;
  for (const PlacedTensor& tensor : tensors) {
    const int64_t rows = stored_rows(*tensor.slot);
    const auto row_bytes = static_cast<int64_t>(stored_row_bytes(*tensor.slot, tensor.dtype));
    // Whole panels of packed rows, so that no two threads share a cache line for long.
    const int64_t step = std::max<int64_t>(kUnitBytes / row_bytes / 64, 1) * 64;
    for (int64_t row = 0; row < rows; row += step) {
      units.push_back({&tensor, row, std::min(step, rows - row)});
    }
  }
  return units;
}

void make_rows(const Unit& unit, uint64_t stream, const NormalTable& table,
               const NormalTable& fp8_table, std::vector<std::byte>& bytes) {
  const TensorSlot& slot = *unit.tensor->slot;
  const DType dtype = unit.tensor->dtype;
  const size_t row_bytes = stored_row_bytes(slot, dtype);
  const size_t row_elements = row_bytes / dtype_size(dtype);
  bytes.resize(static_cast<size_t>(unit.rows) * row_bytes);
  if (slot.use == TensorUse::kGain || slot.use == TensorUse::kBias) {
    const std::vector<float> values(row_elements, slot.use == TensorUse::kGain ? 1.0f : 0.0f);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return;
  }
  for (int64_t r = 0; r < unit.rows; ++r) {
    const uint64_t row_stream = mix(stream ^ mix(static_cast<uint64_t>(unit.first_row + r)));
    (dtype == DType::kF8E4M3 ? fp8_table : table)
        .fill(row_stream, row_elements, bytes.data() + static_cast<size_t>(r) * row_bytes);
  }
}

}  // namespace

Status make_dummy_weights(const ModelConfig& config, ThreadPool& pool, const Progress& progress,
                          LoadedWeights& out) {
  const std::vector<TensorSlot> slots = list_tensors(config, out.weights);
  std::vector<PlacedTensor> tensors = announced_tensors(config, slots);
  for (PlacedTensor& tensor : tensors) {
    const bool vector = tensor.slot->shape.size() < 2;
    if (vector) tensor.dtype = DType::kF32;
    if (tensor.dtype != DType::kF8E4M3) continue;
    tensor.scales.assign(static_cast<size_t>(scale_count(*tensor.slot)),
                         static_cast<float>(kStdDev / kFp8StdDev));
  }
  FATHOM_RETURN_IF_ERROR(place_tensors(config, tensors, out.weights, out.arena));
  const NormalTable table(config.torch_dtype);
  const NormalTable fp8_table(DType::kF8E4M3);
  const std::vector<Unit> units = cut_units(tensors);
  std::vector<std::vector<std::byte>> buffers(static_cast<size_t>(pool.size()));
  FirstError failure;
  std::mutex progress_mutex;
  uint64_t done = 0;
  pool.parallel_for(static_cast<int64_t>(units.size()), [&](int64_t index, int worker) {
    const Unit& unit = units[static_cast<size_t>(index)];
    std::vector<std::byte>& bytes = buffers[static_cast<size_t>(worker)];
    const auto tensor_number = static_cast<uint64_t>(unit.tensor - tensors.data());
    make_rows(unit, mix(tensor_number + 1), table, fp8_table, bytes);
    failure.set(write_rows(*unit.tensor, unit.first_row, unit.rows, bytes.data()));
    if (!progress) return;
    const std::lock_guard lock(progress_mutex);
    progress(++done, units.size());
  });
  FATHOM_RETURN_IF_ERROR(failure.get());
  if (config.tie_word_embeddings) FATHOM_RETURN_IF_ERROR(pack_tied_head(out.weights, pool));
  out.content_hash = config.source_hash;
  return {};
}

}  // namespace fathom
