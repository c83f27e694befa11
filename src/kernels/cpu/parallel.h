// Splitting of cheap row-wise work: small work stays on the calling thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/api/context.h"

namespace fathom::kernels {

constexpr int64_t kInlineBytes = 64 << 10;  // work below this costs less than waking a thread

// fn(first, last) over [0, count) in chunks; `bytes` is what one item touches.
template <typename Fn>
void for_ranges(KernelContext& ctx, int64_t count, int64_t bytes, Fn&& fn) {
  if (count <= 0) return;
  if (ctx.pool().size() == 1 || count * bytes <= kInlineBytes) return fn(int64_t{0}, count);
  const int64_t chunk = std::max<int64_t>(1, kInlineBytes / 2 / std::max<int64_t>(1, bytes));
  const int64_t units = (count + chunk - 1) / chunk;
  ctx.pool().parallel_for(
      units, [&](int64_t unit, int) { fn(unit * chunk, std::min(count, (unit + 1) * chunk)); });
}

}  // namespace fathom::kernels
