// Repacking of stored weights into panels; pure data movement, the same bytes on every machine.
#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/api/linear.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/panels.h"

namespace fathom::kernels {
namespace {

constexpr int64_t kStageWords = 256;  // columns converted at a time when the source type differs

struct Source {
  const std::byte* data;
  DType dtype;
  int64_t stride;   // elements between rows
  int64_t element;  // bytes
  const std::byte* at(int64_t row, int64_t column) const {
    return data + (row * stride + column) * element;
  }
};

DType native_dtype(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF16:
      return DType::kF16;
    case WeightFormat::kBF16:
      return DType::kBF16;
    case WeightFormat::kF8E4M3Block:
      return DType::kF8E4M3;
    default:
      return DType::kF32;
  }
}

float widen_one(const std::byte* p, DType dtype) {
  uint16_t half = 0;
  if (dtype == DType::kF8E4M3) return f8_e4m3_to_float(static_cast<uint8_t>(*p));
  std::memcpy(&half, p, 2);
  return dtype == DType::kF16 ? f16_to_float(half) : bf16_to_float(half);
}

void pack_element(const PackedMatrix& w, int64_t row, int64_t column, const Source& s,
                  const std::byte* from) {
  std::byte* to = w.data + element_offset(w, row, column);
  if (s.dtype == native_dtype(w.format)) {
    std::memcpy(to, from, static_cast<size_t>(s.element));
  } else {
    const float value = widen_one(from, s.dtype);
    std::memcpy(to, &value, 4);
  }
}

// Sixteen rows that fill the lanes of one vector, columns [0, k).
void pack_vector(const KernelTable& table, const PackedMatrix& w, int64_t row, const Source& s,
                 int64_t source_row) {
  const std::byte* rows[16];
  for (int r = 0; r < 16; ++r) rows[r] = s.at(source_row + r, 0);
  std::byte* to = w.data + element_offset(w, row, 0);
  const int64_t step = panel_width(w, row / kPanel) * 2 * element_bytes(w.format);
  int64_t done = 0;
  switch (w.format) {
    case WeightFormat::kF32:
      table.transpose_words(rows, w.k, to, step / 2);
      return;
    case WeightFormat::kBF16:
      table.transpose_words(rows, w.k / 2, to, step);
      done = w.k / 2 * 2;
      break;
    case WeightFormat::kF16:
      table.transpose_halves(rows, w.k / 2, to, step / 2);
      done = w.k / 2 * 2;
      break;
    case WeightFormat::kF8E4M3Block:
      table.transpose_halves(rows, w.k / 4, to, step);
      done = w.k / 4 * 4;
      break;
  }
  for (int r = 0; r < 16; ++r) {
    for (int64_t c = done; c < w.k; ++c) pack_element(w, row + r, c, s, s.at(source_row + r, c));
  }
}

// The same where the source is widened to fp32 on the way.
void pack_vector_widened(const KernelTable& table, const PackedMatrix& w, int64_t row,
                         const Source& s, int64_t source_row) {
  float stage[16][kStageWords];
  const std::byte* rows[16];
  for (int r = 0; r < 16; ++r) rows[r] = reinterpret_cast<const std::byte*>(stage[r]);
  for (int64_t c0 = 0; c0 < w.k; c0 += kStageWords) {
    const int64_t count = std::min(kStageWords, w.k - c0);
    for (int r = 0; r < 16; ++r) {
      for (int64_t c = 0; c < count; ++c)
        stage[r][c] = widen_one(s.at(source_row + r, c0 + c), s.dtype);
    }
    table.transpose_words(rows, count, w.data + element_offset(w, row, c0),
                          panel_width(w, row / kPanel) * 4);
  }
}

Status check_source(const PackedMatrix& w, DType dtype, int64_t first, int64_t count,
                    int64_t limit) {
  const bool native = dtype == native_dtype(w.format);
  const bool widening = w.format == WeightFormat::kF32 &&
                        (dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF8E4M3);
  if (!native && !widening) {
    return Status(Code::kInvalidArgument, std::string("Cannot pack ") + dtype_name(dtype) +
                                              " values into a matrix of another format.");
  }
  if (first < 0 || count < 0 || first > limit || count > limit - first) {
    return Status(Code::kInvalidArgument, "Cannot pack rows " + std::to_string(first) + " to " +
                                              std::to_string(first + count) + " of a matrix with " +
                                              std::to_string(limit) + " rows.");
  }
  return Status();
}

}  // namespace

Result<WeightFormat> packed_format(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return WeightFormat::kF32;
    case DType::kF16:
      return WeightFormat::kF16;
    case DType::kBF16:
      return WeightFormat::kBF16;
    case DType::kF8E4M3:
      return WeightFormat::kF8E4M3Block;
    default:
      return error(Code::kUnsupported,
                   std::string("Weights of type ") + dtype_name(dtype) + " cannot be multiplied.");
  }
}

Result<size_t> packed_bytes(WeightFormat format, int64_t n, int64_t k) {
  constexpr int64_t kLimit = int64_t{1} << 40;  // of n and k each; their product is checked below
  if (n < 0 || k < 0 || n > kLimit || k > kLimit) {
    return error(Code::kInvalidArgument, "A matrix of " + std::to_string(n) + " x " +
                                             std::to_string(k) + " cannot be packed.");
  }
  const int64_t lanes = (n + 15) / 16 * 16;
  const int64_t row_bytes = (k + 1) / 2 * 2 * element_bytes(format);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(lanes, row_bytes, &bytes) || bytes > (int64_t{1} << 60)) {
    return error(Code::kInvalidArgument, "A matrix of " + std::to_string(n) + " x " +
                                             std::to_string(k) + " is too large to be packed.");
  }
  return static_cast<size_t>((bytes + 63) / 64 * 64);
}

Status pack_rows(const PackedMatrix& w, int64_t first_row, int64_t rows, const void* src,
                 DType dtype, int64_t src_stride) {
  FATHOM_RETURN_IF_ERROR(check_source(w, dtype, first_row, rows, w.n));
  const Source s{static_cast<const std::byte*>(src), dtype, src_stride ? src_stride : w.k,
                 static_cast<int64_t>(dtype_size(dtype))};
  const KernelTable& table = table_for(best_isa());
  const bool native = dtype == native_dtype(w.format);
  int64_t i = 0;
  while (i < rows) {
    const int64_t row = first_row + i;
    if (row % 16 == 0 && rows - i >= 16) {
      (native ? pack_vector : pack_vector_widened)(table, w, row, s, i);
      i += 16;
      continue;
    }
    for (int64_t c = 0; c < w.k; ++c) pack_element(w, row, c, s, s.at(i, c));
    ++i;
  }
  return Status();
}

Status pack_transposed_rows(const PackedMatrix& w, int64_t first_k, int64_t count, const void* src,
                            DType dtype, int64_t src_stride) {
  FATHOM_RETURN_IF_ERROR(check_source(w, dtype, first_k, count, w.k));
  const Source s{static_cast<const std::byte*>(src), dtype, src_stride ? src_stride : w.n,
                 static_cast<int64_t>(dtype_size(dtype))};
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t row = 0; row < w.n; ++row) pack_element(w, row, first_k + r, s, s.at(r, row));
  }
  return Status();
}

}  // namespace fathom::kernels
