// What every kernel call needs besides its operands: threads, instruction set, scratch memory.
//
// The row property (all kernels): output row i is one fixed sequence of IEEE fp32 operations on row
// i's own inputs, the weights and its own sequence's cache. The number of rows, threads, pages or
// the instruction set never enter it: results are equal bit for bit. (NaN results are NaN
// everywhere; their payload is not promised.) Denormals are kept: no FTZ/DAZ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/thread_pool.h"

namespace fathom::kernels {

struct KernelTable;  // cpu/kernel_table.h

enum class Isa : uint8_t { kScalar, kAvx2, kAvx512 };  // kScalar is the portable oracle

bool isa_supported(Isa isa);    // by this processor and operating system
Isa best_isa();                 // the widest supported one
const char* isa_name(Isa isa);  // "scalar", "avx2", "avx512"

// A growing 64-byte-aligned buffer; contents are lost when it grows. Allocates during warm-up only.
class ScratchBuffer {
 public:
  ScratchBuffer() = default;
  ScratchBuffer(ScratchBuffer&& other) noexcept;
  ScratchBuffer& operator=(ScratchBuffer&&) = delete;
  ~ScratchBuffer();
  std::byte* reserve(size_t bytes);  // throws std::bad_alloc, the only exception kernels can throw
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Owned by the thread that calls the kernels (one context, one thread). `pool` must outlive it.
class KernelContext {
 public:
  explicit KernelContext(ThreadPool* pool, Isa isa = best_isa());

  ThreadPool& pool() const { return *pool_; }
  Isa isa() const { return isa_; }
  const KernelTable& table() const { return *table_; }

  // For kernel implementations. Shared scratch: slot s keeps its own buffer, valid until the next
  // call with the same slot. Worker scratch: reserve before parallel_for, read inside it.
  enum Slot { kSlotList, kSlotTasks, kSlotA, kSlotB, kSlotC, kSlotD, kSlotCount };
  std::byte* shared_scratch(Slot slot, size_t bytes) { return shared_[slot].reserve(bytes); }
  void reserve_worker_scratch(size_t bytes);
  std::byte* worker_scratch(int worker) const {
    return workers_[static_cast<size_t>(worker)].data();
  }
  size_t scratch_bytes() const;  // all that this context holds

 private:
  ThreadPool* pool_;
  Isa isa_;
  const KernelTable* table_;
  ScratchBuffer shared_[kSlotCount];
  std::vector<ScratchBuffer> workers_;
};

}  // namespace fathom::kernels
