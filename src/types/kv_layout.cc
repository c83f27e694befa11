// Arithmetic on KV layouts.
#include "types/kv_layout.h"

namespace fathom {

size_t KvLayout::bytes_per_token() const {
  size_t bytes = 0;
  for (const KvGroup& group : groups) {
    if (group.growth == KvGrowth::kPerToken) bytes += group.bytes_per_entry;
    if (group.growth == KvGrowth::kPerStride) {
      bytes += (group.bytes_per_entry + static_cast<size_t>(group.stride) - 1) /
               static_cast<size_t>(group.stride);
    }
  }
  return bytes;
}

}  // namespace fathom
