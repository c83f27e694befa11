// The pool: workers spin briefly for the next loop, then sleep; units are claimed from one atomic
// counter.
#include "core/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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

// Longer than the serial gaps between two kernels of a step, shorter than a scheduler's time slice.
constexpr std::chrono::microseconds kSpinTime{100};

// Spins until done() or kSpinTime has passed; returns the last done().
template <typename Done>
bool spin_until(Done done) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 16; ++i) {  // a pause takes 10 to 140 cycles, so the clock decides
      if (done()) return true;
      cpu_relax();
    }
  } while (std::chrono::steady_clock::now() - start < kSpinTime);
  return done();
}

}  // namespace

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

// One loop at a time. `claim` packs (generation << 40 | units not yet claimed). The caller fills
// the loop's fields while no unit is left, then publishes them with `claim`; a thread reads them
// only after its decrement of `claim` took a unit, and the caller waits for that unit, so the
// fields cannot change under it. A worker that wakes late finds no unit left and has touched
// nothing: it holds nobody back. The caller claims units too and waits only for units that others
// have begun.
struct ThreadPool::Impl {
  static constexpr int kUnitBits = 40;
  static constexpr uint64_t kUnitMask = (uint64_t{1} << kUnitBits) - 1;

  std::vector<std::thread> workers;
  alignas(64) std::atomic<uint64_t> claim{0};
  alignas(64) std::atomic<int64_t> done{0};
  alignas(64) int64_t units = 0;  // the loop's fields
  void* context = nullptr;
  UnitFn fn = nullptr;
  uint64_t generation = 0;  // the caller's
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};

  // Claims and runs units until none is left.
  void work(int worker) {
    uint64_t current = claim.load(std::memory_order_acquire);
    while ((current & kUnitMask) != 0) {
      if (!claim.compare_exchange_weak(current, current - 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        continue;
      }
      fn(context, units - static_cast<int64_t>(current & kUnitMask), worker);
      done.fetch_add(1, std::memory_order_release);
      current = claim.load(std::memory_order_acquire);
    }
  }

  void worker_main(int worker) {
    uint64_t seen = 0;
    const auto called = [&] {
      return stop.load() || (claim.load(std::memory_order_seq_cst) >> kUnitBits) != seen;
    };
    while (!stop.load(std::memory_order_relaxed)) {
      if (!spin_until(called)) {
        // run() publishes `claim` before it reads `sleepers`, this thread counts itself before it
        // reads `claim`: one of them sees the other.
        std::unique_lock lock(mutex);
        sleepers.fetch_add(1);
        wake.wait(lock, called);
        sleepers.fetch_sub(1);
      }
      seen = claim.load(std::memory_order_acquire) >> kUnitBits;
      if (!stop.load(std::memory_order_relaxed)) work(worker);
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
  pool.units = units;
  pool.context = context;
  pool.fn = fn;
  pool.done.store(0, std::memory_order_relaxed);
  pool.generation = (pool.generation + 1) & (~uint64_t{0} >> Impl::kUnitBits);
  pool.claim.store(pool.generation << Impl::kUnitBits | static_cast<uint64_t>(units),
                   std::memory_order_seq_cst);
  if (pool.sleepers.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(pool.mutex);
    pool.wake.notify_all();
  }
  pool.work(0);
  const auto finished = [&] { return pool.done.load(std::memory_order_acquire) == units; };
  while (!spin_until(finished)) std::this_thread::yield();  // a thread was descheduled in its unit
}

}  // namespace fathom
