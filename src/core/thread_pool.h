// A fixed set of threads that share out the units of one loop at a time.
//
// The number of threads and who runs which unit never enter arithmetic: a unit owns whole outputs.
// Owned by the thread that calls parallel_for; only one thread may call it at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace fathom {

class ThreadPool {
 public:
  // `threads` includes the calling thread; 0 = one per available processor (affinity mask
  // respected).
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;  // number of threads, the caller's included

  // Runs fn(unit, worker) for every unit in [0, units); worker in [0, size()) names the running
  // thread (for scratch). Returns when all units are done. Units are handed out in ascending order.
  // fn must not throw and must not call parallel_for of this pool.
  template <typename Fn>
  void parallel_for(int64_t units, Fn&& fn) {
    using F = std::remove_reference_t<Fn>;
    run(units, const_cast<std::remove_const_t<F>*>(&fn),
        [](void* context, int64_t unit, int worker) { (*static_cast<F*>(context))(unit, worker); });
  }

 private:
  using UnitFn = void (*)(void* context, int64_t unit, int worker);
  void run(int64_t units, void* context, UnitFn fn);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

int available_processors();  // processors this process may run on, at least 1

}  // namespace fathom
