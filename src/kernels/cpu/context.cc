// The kernels' context: table choice and scratch memory.
#include "kernels/api/context.h"

#include <new>
#include <utility>

#include "kernels/cpu/kernel_table.h"

namespace fathom::kernels {
namespace {
constexpr std::align_val_t kAlignment{64};
}

ScratchBuffer::ScratchBuffer(ScratchBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

ScratchBuffer::~ScratchBuffer() {
  if (data_) ::operator delete(data_, kAlignment);
}

std::byte* ScratchBuffer::reserve(size_t bytes) {
  if (bytes <= size_) return data_;
  const size_t grown =
      (bytes + bytes / 4 + 4095) / 4096 * 4096;  // a step a little larger: no new one
  auto* fresh = static_cast<std::byte*>(::operator new(grown, kAlignment));
  if (data_) ::operator delete(data_, kAlignment);
  data_ = fresh;
  size_ = grown;
  return data_;
}

KernelContext::KernelContext(ThreadPool* pool, Isa isa)
    : pool_(pool),
      isa_(isa_supported(isa) ? isa : best_isa()),
      table_(&table_for(isa_)),
      workers_(static_cast<size_t>(pool->size())) {}

void KernelContext::reserve_worker_scratch(size_t bytes) {
  for (ScratchBuffer& worker : workers_) worker.reserve(bytes);
}

size_t KernelContext::scratch_bytes() const {
  size_t total = 0;
  for (const ScratchBuffer& buffer : shared_) total += buffer.size();
  for (const ScratchBuffer& buffer : workers_) total += buffer.size();
  return total;
}

}  // namespace fathom::kernels
