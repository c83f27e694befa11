// One loop per stored type; the 8-bit types go through tables of 256 floats.
#include "weights/convert.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace fathom {
namespace {

template <typename Stored, typename Convert>
void convert_all(const void* src, float* dst, size_t n, Convert convert) {
  const auto* bytes = static_cast<const unsigned char*>(src);
  for (size_t i = 0; i < n; ++i) {
    Stored value;
    std::memcpy(&value, bytes + i * sizeof(Stored), sizeof(Stored));  // src may be unaligned
    dst[i] = convert(value);
  }
}

using Table = std::array<float, 256>;

template <typename Convert>
Table make_table(Convert convert) {
  Table table{};
  for (size_t code = 0; code < table.size(); ++code)
    table[code] = convert(static_cast<uint8_t>(code));
  return table;
}

void convert_by_table(const Table& table, const void* src, float* dst, size_t n) {
  const auto* codes = static_cast<const uint8_t*>(src);
  for (size_t i = 0; i < n; ++i) dst[i] = table[codes[i]];
}

// e5m2 is the upper byte of a half, infinities and NaN included.
float f8_e5m2_to_float(uint8_t bits) {
  return f16_to_float(static_cast<uint16_t>(bits << 8));
}

const Table& e4m3_table() {
  static const Table table = make_table(f8_e4m3_to_float);
  return table;
}
const Table& e5m2_table() {
  static const Table table = make_table(f8_e5m2_to_float);
  return table;
}
const Table& e8m0_table() {
  static const Table table = make_table(f8_e8m0_to_float);
  return table;
}

constexpr auto kCast = [](auto value) { return static_cast<float>(value); };

}  // namespace

void to_float(DType dtype, const void* src, float* dst, size_t n) {
  if (n == 0) return;
  switch (dtype) {
    case DType::kF64:
      return convert_all<double>(src, dst, n, kCast);
    case DType::kF32:
      std::memcpy(dst, src, n * sizeof(float));
      return;
    case DType::kF16:
      return convert_all<uint16_t>(src, dst, n, f16_to_float);
    case DType::kBF16:
      return convert_all<uint16_t>(src, dst, n, bf16_to_float);
    case DType::kF8E4M3:
      return convert_by_table(e4m3_table(), src, dst, n);
    case DType::kF8E5M2:
      return convert_by_table(e5m2_table(), src, dst, n);
    case DType::kF8E8M0:
      return convert_by_table(e8m0_table(), src, dst, n);
    case DType::kI64:
      return convert_all<int64_t>(src, dst, n, kCast);
    case DType::kI32:
      return convert_all<int32_t>(src, dst, n, kCast);
    case DType::kI16:
      return convert_all<int16_t>(src, dst, n, kCast);
    case DType::kI8:
      return convert_all<int8_t>(src, dst, n, kCast);
    case DType::kU8:
      return convert_all<uint8_t>(src, dst, n, kCast);
    case DType::kBool:
      return convert_all<uint8_t>(src, dst, n,
                                  [](uint8_t value) { return value != 0 ? 1.0f : 0.0f; });
  }
}

}  // namespace fathom
