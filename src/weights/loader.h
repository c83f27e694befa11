// Streams the bytes of a checkpoint through all threads into wherever the model keeps its weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/status.h"
#include "core/thread_pool.h"
#include "weights/checkpoint.h"

namespace fathom {

// One tensor to be delivered, as `rows` rows of `row_bytes` bytes (rows * row_bytes =
// tensor->bytes).
struct LoadJob {
  const TensorInfo* tensor = nullptr;
  int64_t rows = 0;
  size_t row_bytes = 0;
  // Called from the pool's threads for rows [first_row, first_row + row_count), each row exactly
  // once, different rows possibly at the same time. `bytes` holds the rows one after the other,
  // aligned for the tensor's type, and is gone after the call. Must not throw.
  std::function<void(int64_t first_row, int64_t row_count, const std::byte* bytes, int worker)>
      sink;
};

struct LoadOptions {
  // Called from the pool's threads, one call at a time, `done` rising and at the end equal to
  // total.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

struct LoadStats {
  uint64_t bytes = 0;
  double seconds = 0;
  // Hash of the names and bytes of all delivered tensors; the same whatever the threads and the
  // order.
  uint64_t content_hash = 0;
};

// Delivers all jobs, ordered by place in the files. Memory: one staging buffer of a few MiB a
// thread (at least one row); none if the checkpoint is mapped. Stops at the first read error.
Result<LoadStats> load_tensors(const Checkpoint& checkpoint, std::vector<LoadJob> jobs,
                               ThreadPool& pool, const LoadOptions& options = {});

}  // namespace fathom
