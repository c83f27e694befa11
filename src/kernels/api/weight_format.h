// The formats of packed weights; apart from linear.h so that instruction-set files need nothing
// else.
#pragma once

#include <cstdint>

namespace fathom::kernels {

// Quantized formats will be appended.
enum class WeightFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF8E4M3Block,  // e4m3 bytes with one fp32 scale per 128 rows x 128 columns
};

constexpr int64_t kScaleBlock = 128;  // rows and columns that share one scale in kF8E4M3Block

}  // namespace fathom::kernels
