// Element types as checkpoints name them, and their exact conversions to float.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace fathom {

enum class DType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool
};

size_t dtype_size(DType dtype);       // bytes per element
const char* dtype_name(DType dtype);  // as in a safetensors header: "BF16", "F8_E4M3", ...
std::optional<DType> dtype_from_name(std::string_view name);

inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
// Round to nearest even; NaN stays NaN (quiet).
inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
float f16_to_float(uint16_t bits);
float f8_e4m3_to_float(uint8_t bits);  // e4m3fn: 0x7f and 0xff are NaN, no infinities, max 448
float f8_e8m0_to_float(uint8_t bits);  // 2^(bits-127); 255 is NaN

}  // namespace fathom
