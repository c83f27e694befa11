// The pool: workers spin briefly for the next loop, then sleep; units are claimed from one atomic
// counter.
#include "core/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fathom {
namespace {

inline void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// About 20-50 us of spinning: longer than the gap between two kernels of a step.
constexpr int kSpins = 4000;

}  // namespace

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

// One loop is one Job. `claim` packs (generation << 40 | next unit): a worker that wakes late sees
// another generation and cannot take a unit of the wrong loop. The caller runs units too, so a
// descheduled worker that claimed nothing holds nobody back.
struct ThreadPool::Impl {
  static constexpr int kUnitBits = 40;
  static constexpr uint64_t kUnitMask = (uint64_t{1} << kUnitBits) - 1;

  std::vector<std::thread> workers;
  std::atomic<uint64_t> claim{0};
  std::atomic<int64_t> units{0};
  std::atomic<int64_t> done{0};
  std::atomic<void*> context{nullptr};
  std::atomic<UnitFn> fn{nullptr};
  uint64_t generation = 0;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};

  // Claims units of loop `gen` until none is left.
  void work(uint64_t gen, int worker) {
    for (;;) {
      uint64_t current = claim.load(std::memory_order_acquire);
      if ((current >> kUnitBits) != gen) return;
      const int64_t total = units.load(std::memory_order_relaxed);
      void* ctx = context.load(std::memory_order_relaxed);
      UnitFn f = fn.load(std::memory_order_relaxed);
      const int64_t unit = static_cast<int64_t>(current & kUnitMask);
      if (unit >= total) return;
      if (!claim.compare_exchange_weak(current, current + 1, std::memory_order_acq_rel)) continue;
      f(ctx, unit, worker);
      done.fetch_add(1, std::memory_order_release);
    }
  }

  void worker_main(int worker) {
    uint64_t seen = 0;
    for (;;) {
      uint64_t gen = seen;
      for (int spin = 0; spin < kSpins && gen == seen && !stop.load(std::memory_order_relaxed);
           ++spin) {
        gen = claim.load(std::memory_order_acquire) >> kUnitBits;
        cpu_relax();
      }
      if (gen == seen) {
        std::unique_lock lock(mutex);
        sleepers.fetch_add(1);
        wake.wait(lock, [&] { return stop.load() || (claim.load() >> kUnitBits) != seen; });
        sleepers.fetch_sub(1);
        if (stop.load()) return;
        gen = claim.load(std::memory_order_acquire) >> kUnitBits;
      }
      if (stop.load(std::memory_order_relaxed)) return;
      seen = gen;
      work(gen, worker);
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  const int count = threads > 0 ? threads : available_processors();
  for (int i = 1; i < count; ++i) {
    impl_->workers.emplace_back([impl = impl_.get(), i] { impl->worker_main(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stop.store(true);
  }
  impl_->wake.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::size() const {
  return static_cast<int>(impl_->workers.size()) + 1;
}

void ThreadPool::run(int64_t units, void* context, UnitFn fn) {
  if (units <= 0) return;
  Impl& pool = *impl_;
  if (pool.workers.empty() || units == 1) {
    for (int64_t unit = 0; unit < units; ++unit) fn(context, unit, 0);
    return;
  }
  // The counter of the last loop is exhausted, so nobody can claim while the fields change: a
  // worker that still reads them finds unit >= total or fails its compare-exchange.
  pool.claim.store((pool.generation << Impl::kUnitBits) | Impl::kUnitMask,
                   std::memory_order_release);
  pool.done.store(0, std::memory_order_relaxed);
  pool.units.store(units, std::memory_order_relaxed);
  pool.context.store(context, std::memory_order_relaxed);
  pool.fn.store(fn, std::memory_order_relaxed);
  pool.generation = (pool.generation + 1) & ((uint64_t{1} << (64 - Impl::kUnitBits)) - 1);
  const uint64_t gen = pool.generation;
  pool.claim.store(gen << Impl::kUnitBits, std::memory_order_seq_cst);
  if (pool.sleepers.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(pool.mutex);
    pool.wake.notify_all();
  }
  pool.work(gen, 0);
  for (int spin = 0; pool.done.load(std::memory_order_acquire) < units; ++spin) {
    spin < kSpins ? cpu_relax() : std::this_thread::yield();
  }
}

}  // namespace fathom
