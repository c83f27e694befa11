// What this machine can do at most: the ceilings that `fathom bench` measures against.
#pragma once

#include "kernels/api/context.h"

namespace fathom::kernels {

// Bytes per second that all threads of the pool read together from memory far larger than the
// caches (best of several passes, about 0.3 s, `bytes` of temporary memory).
double measure_read_bandwidth(KernelContext& ctx, size_t bytes = size_t{1} << 30);
// fp32 fused multiply-adds per second, times two, of all threads together (about 0.2 s).
double measure_fma_peak(KernelContext& ctx);

}  // namespace fathom::kernels
