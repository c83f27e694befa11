// Measures this machine's ceilings with the same threads and instructions that the kernels use.
#include "kernels/api/machine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "core/file.h"
#include "kernels/cpu/kernel_table.h"

namespace fathom::kernels {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

double measure_read_bandwidth(KernelContext& ctx, size_t bytes) {
  constexpr int64_t kUnit = 1 << 20;
  constexpr int kPasses = 5;
  auto buffer = HugeBuffer::allocate(std::max<size_t>(bytes, kUnit));
  if (!buffer) return 0;
  const auto units = static_cast<int64_t>(buffer->size()) / kUnit;
  std::vector<float> sums(static_cast<size_t>(units));
  ctx.pool().parallel_for(units, [&](int64_t unit, int) {  // pages must exist before they are read
    std::memset(buffer->data() + unit * kUnit, 1, kUnit);
  });
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = Clock::now();
    ctx.pool().parallel_for(units, [&](int64_t unit, int) {
      sums[static_cast<size_t>(unit)] =
          ctx.table().read_stream(buffer->data() + unit * kUnit, kUnit);
    });
    best = std::max(best, static_cast<double>(units * kUnit) / seconds_since(start));
  }
  return best;
}

double measure_fma_peak(KernelContext& ctx) {
  constexpr int64_t kRounds = 200000;
  constexpr int kPasses = 5;
  const int64_t threads = ctx.pool().size();
  const int64_t units =
      threads * 16;  // small units: a descheduled thread does not hold up the rest
  std::vector<float> sums(static_cast<size_t>(units));
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = Clock::now();
    ctx.pool().parallel_for(units, [&](int64_t unit, int) {
      sums[static_cast<size_t>(unit)] = ctx.table().fma_burn(kRounds / 16);
    });
    const double flops = 2.0 * static_cast<double>(units * (kRounds / 16) * kFmaBurnFmas);
    best = std::max(best, flops / seconds_since(start));
  }
  return best;
}

}  // namespace fathom::kernels
