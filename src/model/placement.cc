// Lays the tensors of a model out in one block of memory and writes stored rows into their place.
#include "model/placement.h"

#include <fmt/format.h>

#include <cstring>

#include "weights/convert.h"

namespace fathom {
namespace {

constexpr size_t kAlignment = 64;  // as PackedMatrix wants its data
constexpr int64_t kBlock = kernels::kScaleBlock;
// Beyond the weights: threads, key-value pages, scratch. Small, so that a tight fit is still tried.
constexpr uint64_t kReserveBytes = uint64_t{64} << 20;

// Hands out consecutive aligned pieces; with a null base it only counts.
class Arena {
 public:
  explicit Arena(std::byte* base) : base_(base) {}
  std::byte* take(size_t bytes) {
    std::byte* place = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  float* take_floats(int64_t count) {
    return reinterpret_cast<float*>(take(static_cast<size_t>(count) * sizeof(float)));
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

Status place_matrix(Arena& arena, kernels::PackedMatrix& matrix, DType dtype) {
  FATHOM_ASSIGN_OR_STATUS(matrix.format, kernels::packed_format(dtype));
  FATHOM_ASSIGN_OR_STATUS(const size_t bytes,
                          kernels::packed_bytes(matrix.format, matrix.n, matrix.k));
  matrix.data = arena.take(bytes);
  return {};
}

// FP8 scales and float vectors are copied where the kernels read them.
Status place_one(Arena& arena, const PlacedTensor& tensor) {
  const TensorSlot& slot = *tensor.slot;
  switch (slot.use) {
    case TensorUse::kMatrix: {
      kernels::PackedMatrix& matrix = *std::get<kernels::PackedMatrix*>(slot.target);
      FATHOM_RETURN_IF_ERROR(place_matrix(arena, matrix, tensor.dtype));
      if (tensor.dtype != DType::kF8E4M3) return {};
      float* scales = arena.take_floats(scale_count(slot));
      matrix.scales = scales;
      if (scales != nullptr) {
        std::memcpy(scales, tensor.scales.data(), tensor.scales.size() * sizeof(float));
      }
      return {};
    }
    case TensorUse::kKvB: {
      // Block scales cut across heads and, for W_UK, across the transposition: float32 instead.
      const DType dtype = tensor.dtype == DType::kF8E4M3 ? DType::kF32 : tensor.dtype;
      MlaWeights& mla = *std::get<MlaWeights*>(slot.target);
      for (kernels::PackedMatrix& head : mla.w_uk_t) {
        FATHOM_RETURN_IF_ERROR(place_matrix(arena, head, dtype));
      }
      for (kernels::PackedMatrix& head : mla.w_uv) {
        FATHOM_RETURN_IF_ERROR(place_matrix(arena, head, dtype));
      }
      return {};
    }
    case TensorUse::kEmbedding: {
      EmbeddingTable& table = *std::get<EmbeddingTable*>(slot.target);
      table.dtype = tensor.dtype;
      table.data = arena.take(static_cast<size_t>(element_count(slot)) * dtype_size(tensor.dtype));
      return {};
    }
    case TensorUse::kGain:
    case TensorUse::kBias:
      *std::get<const float**>(slot.target) = arena.take_floats(element_count(slot));
      return {};
    case TensorUse::kUnused:
      return {};
  }
  return {};
}

Status place_all(Arena& arena, const ModelConfig& config, const std::vector<PlacedTensor>& tensors,
                 ModelWeights& weights) {
  for (const PlacedTensor& tensor : tensors) FATHOM_RETURN_IF_ERROR(place_one(arena, tensor));
  if (config.tie_word_embeddings) {
    FATHOM_RETURN_IF_ERROR(place_matrix(arena, weights.lm_head, weights.embed_tokens.dtype));
  }
  return {};
}

// Stored FP8 rows of kv_b_proj as float32 values: code times the scale of its block.
std::vector<float> dequantize_rows(const PlacedTensor& tensor, int64_t first_row, int64_t count,
                                   const std::byte* bytes) {
  const int64_t cols = tensor.slot->shape[1];
  const int64_t grid_cols = (cols + kBlock - 1) / kBlock;
  std::vector<float> values(static_cast<size_t>(count * cols));
  to_float(DType::kF8E4M3, bytes, values.data(), values.size());
  for (int64_t r = 0; r < count; ++r) {
    const float* scales = tensor.scales.data() + (first_row + r) / kBlock * grid_cols;
    float* row = values.data() + r * cols;
    for (int64_t c = 0; c < cols; ++c) row[c] *= scales[c / kBlock];
  }
  return values;
}

// Rows of kv_b_proj: per head first qk_nope_head_dim rows of W_UK, then v_head_dim rows of W_UV.
Status write_kv_b(const PlacedTensor& tensor, int64_t first_row, int64_t count,
                  const std::byte* bytes) {
  std::vector<float> dequantized;
  DType dtype = tensor.dtype;
  if (dtype == DType::kF8E4M3) {
    dequantized = dequantize_rows(tensor, first_row, count, bytes);
    bytes = reinterpret_cast<const std::byte*>(dequantized.data());
    dtype = DType::kF32;
  }
  const MlaWeights& mla = *std::get<MlaWeights*>(tensor.slot->target);
  const int64_t nope = mla.w_uk_t[0].k;
  const int64_t head_rows = nope + mla.w_uv[0].n;
  const size_t row_bytes = static_cast<size_t>(tensor.slot->shape[1]) * dtype_size(dtype);
  for (int64_t done = 0; done < count;) {
    const auto head = static_cast<size_t>((first_row + done) / head_rows);
    const int64_t row = (first_row + done) % head_rows;
    const bool is_key = row < nope;
    const int64_t run = std::min(count - done, (is_key ? nope : head_rows) - row);
    const std::byte* src = bytes + static_cast<size_t>(done) * row_bytes;
    if (is_key) {
      FATHOM_RETURN_IF_ERROR(kernels::pack_transposed_rows(mla.w_uk_t[head], row, run, src, dtype));
    } else {
      FATHOM_RETURN_IF_ERROR(kernels::pack_rows(mla.w_uv[head], row - nope, run, src, dtype));
    }
    done += run;
  }
  return {};
}

}  // namespace

void FirstError::set(Status status) {
  if (status.ok()) return;
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = std::move(status);
}

Status FirstError::get() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::vector<PlacedTensor> announced_tensors(const ModelConfig& config,
                                            const std::vector<TensorSlot>& slots) {
  std::vector<PlacedTensor> tensors;
  for (const TensorSlot& slot : slots) {
    if (slot.use == TensorUse::kUnused) continue;
    PlacedTensor tensor;
    tensor.slot = &slot;
    tensor.dtype = config.fp8.enabled && slot.quantizable ? DType::kF8E4M3 : config.torch_dtype;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

int64_t scale_count(const TensorSlot& slot) {
  return (slot.shape[0] + kBlock - 1) / kBlock * ((slot.shape[1] + kBlock - 1) / kBlock);
}

Result<uint64_t> placed_bytes(const ModelConfig& config, const std::vector<PlacedTensor>& tensors,
                              ModelWeights& weights) {
  Arena counter(nullptr);
  FATHOM_TRY(place_all(counter, config, tensors, weights));
  return counter.used();
}

Status place_tensors(const ModelConfig& config, const std::vector<PlacedTensor>& tensors,
                     ModelWeights& weights, HugeBuffer& arena) {
  FATHOM_ASSIGN_OR_STATUS(const uint64_t bytes, placed_bytes(config, tensors, weights));
  const uint64_t available = available_memory_bytes();
  if (bytes + kReserveBytes > available) {
    return {Code::kOutOfMemory,
            fmt::format("the weights take {:.2f} GB of memory, but only {:.2f} GB are available; "
                        "choose a smaller model or free memory",
                        static_cast<double>(bytes) / 1e9, static_cast<double>(available) / 1e9)};
  }
  FATHOM_ASSIGN_OR_STATUS(arena, HugeBuffer::allocate(bytes));
  Arena placer(arena.data());
  return place_all(placer, config, tensors, weights);
}

int64_t stored_rows(const TensorSlot& slot) {
  return slot.shape.size() < 2 ? 1 : slot.shape[0];
}

size_t stored_row_bytes(const TensorSlot& slot, DType dtype) {
  return static_cast<size_t>(element_count(slot) / stored_rows(slot)) * dtype_size(dtype);
}

Status write_rows(const PlacedTensor& tensor, int64_t first_row, int64_t count,
                  const std::byte* bytes) {
  const TensorSlot& slot = *tensor.slot;
  switch (slot.use) {
    case TensorUse::kMatrix:
      return kernels::pack_rows(*std::get<kernels::PackedMatrix*>(slot.target), first_row, count,
                                bytes, tensor.dtype);
    case TensorUse::kKvB:
      return write_kv_b(tensor, first_row, count, bytes);
    case TensorUse::kEmbedding: {
      const size_t row_bytes = stored_row_bytes(slot, tensor.dtype);
      // Arena memory is ours to write; the table's view of it is const for everybody else.
      auto* data = const_cast<std::byte*>(std::get<EmbeddingTable*>(slot.target)->data);
      std::memcpy(data + static_cast<size_t>(first_row) * row_bytes, bytes,
                  static_cast<size_t>(count) * row_bytes);
      return {};
    }
    case TensorUse::kGain:
    case TensorUse::kBias:
      to_float(tensor.dtype, bytes, const_cast<float*>(*std::get<const float**>(slot.target)),
               static_cast<size_t>(element_count(slot)));
      return {};
    case TensorUse::kUnused:
      return {};
  }
  return {};
}

Status pack_tied_head(ModelWeights& weights, ThreadPool& pool) {
  constexpr int64_t kRows = 256;  // per unit
  const kernels::PackedMatrix& head = weights.lm_head;
  const size_t row_bytes = static_cast<size_t>(head.k) * dtype_size(weights.embed_tokens.dtype);
  FirstError failure;
  pool.parallel_for((head.n + kRows - 1) / kRows, [&](int64_t unit, int) {
    const int64_t first = unit * kRows;
    failure.set(
        kernels::pack_rows(head, first, std::min(kRows, head.n - first),
                           weights.embed_tokens.data + static_cast<size_t>(first) * row_bytes,
                           weights.embed_tokens.dtype));
  });
  return failure.get();
}

}  // namespace fathom
