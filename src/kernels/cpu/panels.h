// Where an element of a packed matrix lies; see PackedMatrix in api/linear.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/api/linear.h"
#include "kernels/cpu/kernel_table.h"

namespace fathom::kernels {

inline int64_t element_bytes(WeightFormat format) {
  return format == WeightFormat::kF32 ? 4 : format == WeightFormat::kF8E4M3Block ? 1 : 2;
}
inline bool pair_interleaved(WeightFormat format) {
  return format == WeightFormat::kBF16 || format == WeightFormat::kF8E4M3Block;
}
// k as stored: the pair-interleaved formats pad an odd k by one.
inline int64_t stored_k(const PackedMatrix& w) {
  return pair_interleaved(w.format) ? (w.k + 1) / 2 * 2 : w.k;
}
inline int64_t panel_count(const PackedMatrix& w) {
  return (w.n + kPanel - 1) / kPanel;
}
inline int64_t panel_width(const PackedMatrix& w, int64_t panel) {
  return std::min(kPanel, (w.n - panel * kPanel + 15) / 16 * 16);
}
inline int64_t panel_offset(const PackedMatrix& w, int64_t panel) {
  return panel * kPanel * stored_k(w) * element_bytes(w.format);
}
inline int64_t element_offset(const PackedMatrix& w, int64_t row, int64_t column) {
  const int64_t panel = row / kPanel;
  const int64_t lane = row % kPanel;
  const int64_t width = panel_width(w, panel);
  const int64_t index = pair_interleaved(w.format) ? column / 2 * 2 * width + lane * 2 + column % 2
                                                   : column * width + lane;
  return panel_offset(w, panel) + index * element_bytes(w.format);
}

}  // namespace fathom::kernels
