// Rotary embedding in plain C++: products and sums only, so every build gives the same bits.
#include "kernels/api/rope.h"

#include <limits>

#include "kernels/api/math.h"
#include "kernels/cpu/parallel.h"

namespace fathom::kernels {

void rope_angles(std::span<const float> inv_freq, float mscale, std::span<const int32_t> positions,
                 float* cos, float* sin) {
  constexpr int32_t kPositionLimit = 1 << 24;  // beyond it float(position) is not exact
  const size_t half = inv_freq.size();
  for (size_t i = 0; i < positions.size(); ++i) {
    const bool valid = positions[i] >= 0 && positions[i] < kPositionLimit;
    const float position =
        valid ? static_cast<float>(positions[i]) : std::numeric_limits<float>::quiet_NaN();
    for (size_t j = 0; j < half; ++j) {
      const float angle = position * inv_freq[j];
      const SinCos value = sincos_f64(static_cast<double>(angle));
      cos[i * half + j] = static_cast<float>(value.cos) * mscale;
      sin[i * half + j] = static_cast<float>(value.sin) * mscale;
    }
  }
}

void rope_apply(KernelContext& ctx, const RopeArgs& args) {
  const int64_t half = args.d / 2;
  const bool interleaved = args.layout == RopeLayout::kInterleaved;
  const int64_t step = interleaved ? 2 : 1;
  const int64_t partner = interleaved ? 1 : half;
  for_ranges(ctx, args.m, args.heads * args.d * 8, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const float* cos = args.cos + i * half;
      const float* sin = args.sin + i * half;
      for (int64_t h = 0; h < args.heads; ++h) {
        float* x = args.x + i * args.row_stride + h * args.head_stride;
        for (int64_t j = 0; j < half; ++j) {
          const float a = x[j * step], b = x[j * step + partner];
          x[j * step] = a * cos[j] - b * sin[j];
          x[j * step + partner] = b * cos[j] + a * sin[j];
        }
      }
    }
  });
}

}  // namespace fathom::kernels
