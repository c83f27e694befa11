// Tables and scalar conversions of element types.
#include "core/dtype.h"

#include <array>
#include <cmath>
#include <limits>

namespace fathom {
namespace {

struct DTypeInfo {
  const char* name;
  size_t size;
};
constexpr std::array<DTypeInfo, 13> kInfo = {{{"F64", 8},
                                              {"F32", 4},
                                              {"F16", 2},
                                              {"BF16", 2},
                                              {"F8_E4M3", 1},
                                              {"F8_E5M2", 1},
                                              {"F8_E8M0", 1},
                                              {"I64", 8},
                                              {"I32", 4},
                                              {"I16", 2},
                                              {"I8", 1},
                                              {"U8", 1},
                                              {"BOOL", 1}}};

}  // namespace

size_t dtype_size(DType dtype) {
  return kInfo[static_cast<size_t>(dtype)].size;
}
const char* dtype_name(DType dtype) {
  return kInfo[static_cast<size_t>(dtype)].name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kInfo.size(); ++i) {
    if (name == kInfo[i].name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

float f16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23;
  return std::bit_cast<float>(sign | wide | (mantissa << 13));
}

float f8_e4m3_to_float(uint8_t bits) {
  const int exponent = (bits >> 3) & 15;
  const int mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (bits & 0x80) ? -magnitude : magnitude;
}

float f8_e8m0_to_float(uint8_t bits) {
  if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, static_cast<int>(bits) - 127);
}

}  // namespace fathom
