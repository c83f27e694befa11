// Cuts all jobs into chunks in file order and lets the pool's threads take them one by one.
#include "weights/loader.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "core/clock.h"
#include "core/dtype.h"
#include "core/file.h"

namespace fathom {
namespace {

// Small enough to stay in a core's second-level cache between the read and the repacking, large
// enough that a system call costs nothing.
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;
constexpr uint64_t kReadAheadBytes = uint64_t{64} << 20;

// Whole rows of one tensor, read and delivered by one thread.
struct Chunk {
  const LoadJob* job = nullptr;
  int64_t first_row = 0;
  int64_t rows = 0;

  uint64_t offset() const { return static_cast<uint64_t>(first_row) * job->row_bytes; }
  size_t bytes() const { return static_cast<size_t>(rows) * job->row_bytes; }
};

Status check_job(const LoadJob& job) {
  uint64_t bytes = 0;
  const bool wrong =
      job.tensor == nullptr || !job.sink || job.rows < 0 ||
      __builtin_mul_overflow(static_cast<uint64_t>(job.rows), job.row_bytes, &bytes) ||
      bytes != job.tensor->bytes;
  if (!wrong) return {};
  return {Code::kInternal, fmt::format("the load of {} is asked for as {} rows of {} bytes",
                                       job.tensor == nullptr ? "no tensor" : job.tensor->name,
                                       job.rows, job.row_bytes)};
}

std::vector<Chunk> cut_into_chunks(const std::vector<LoadJob>& jobs) {
  std::vector<Chunk> chunks;
  for (const LoadJob& job : jobs) {
    if (job.tensor->bytes == 0) continue;
    const auto rows_each = static_cast<int64_t>(std::max<uint64_t>(1, kChunkBytes / job.row_bytes));
    for (int64_t row = 0; row < job.rows; row += rows_each) {
      chunks.push_back({&job, row, std::min(rows_each, job.rows - row)});
    }
  }
  return chunks;
}

// What the threads of one load share.
class Load {
 public:
  Load(const Checkpoint& checkpoint, std::vector<Chunk> chunks, const LoadOptions& options)
      : checkpoint_(checkpoint), chunks_(std::move(chunks)), options_(options) {
    uint64_t sum = 0;
    for (const Chunk& chunk : chunks_) {
      largest_ = std::max(largest_, chunk.bytes());
      sum += chunk.bytes();
    }
    total_ = sum;
    if (!chunks_.empty())
      ahead_ = std::max<size_t>(1, kReadAheadBytes / std::max<uint64_t>(1, sum / chunks_.size()));
  }

  Status allocate(int workers) {
    for (int worker = 0; worker < workers; ++worker) {
      FATHOM_ASSIGN_OR_STATUS(HugeBuffer buffer, HugeBuffer::allocate(largest_));
      staging_.push_back(std::move(buffer));
    }
    return {};
  }

  size_t chunk_count() const { return chunks_.size(); }
  uint64_t total() const { return total_; }
  uint64_t content_hash() const { return hash_.load(); }
  const Status& status() const { return status_; }

  void deliver(size_t index, int worker) {
    if (failed_.load(std::memory_order_relaxed)) return;
    if (index + ahead_ < chunks_.size()) {
      const Chunk& later = chunks_[index + ahead_];
      checkpoint_.prefetch(*later.job->tensor, later.offset(), later.bytes());
    }
    const Chunk& chunk = chunks_[index];
    const std::byte* bytes = in_place(chunk);
    if (bytes == nullptr) {
      std::byte* buffer = staging_[static_cast<size_t>(worker)].data();
      if (Status status =
              checkpoint_.read(*chunk.job->tensor, chunk.offset(), buffer, chunk.bytes());
          !status.ok()) {
        return fail(std::move(status));
      }
      bytes = buffer;
    }
    add_to_hash(chunk, bytes);
    chunk.job->sink(chunk.first_row, chunk.rows, bytes, worker);
    report_progress(chunk.bytes());
  }

 private:
  // The chunk in the mapped file, if it is mapped and aligned for its type.
  const std::byte* in_place(const Chunk& chunk) const {
    const std::byte* data = checkpoint_.data(*chunk.job->tensor);
    if (data == nullptr) return nullptr;
    data += chunk.offset();
    return reinterpret_cast<uintptr_t>(data) % dtype_size(chunk.job->tensor->dtype) == 0 ? data
                                                                                         : nullptr;
  }

  // A sum, because chunks come in any order; each term knows its tensor and place.
  void add_to_hash(const Chunk& chunk, const std::byte* bytes) {
    const std::string& name = chunk.job->tensor->name;
    const uint64_t place = XXH3_64bits_withSeed(name.data(), name.size(), chunk.offset());
    hash_.fetch_add(XXH3_64bits_withSeed(bytes, chunk.bytes(), place), std::memory_order_relaxed);
  }

  void report_progress(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    if (options_.progress) options_.progress(done_, total_);
  }

  void fail(Status status) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    failed_ = true;
  }

  const Checkpoint& checkpoint_;
  const std::vector<Chunk> chunks_;
  const LoadOptions& options_;
  size_t largest_ = 0;
  size_t ahead_ = 1;  // chunks between the one being read and the one being prefetched
  uint64_t total_ = 0;
  std::vector<HugeBuffer> staging_;  // one per worker
  std::atomic<uint64_t> hash_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  uint64_t done_ = 0;  // guarded by mutex_
  Status status_;      // guarded by mutex_
};

}  // namespace

Result<LoadStats> load_tensors(const Checkpoint& checkpoint, std::vector<LoadJob> jobs,
                               ThreadPool& pool, const LoadOptions& options) {
  const double start = now_seconds();
  for (const LoadJob& job : jobs) FATHOM_TRY(check_job(job));
  std::stable_sort(jobs.begin(), jobs.end(), [](const LoadJob& a, const LoadJob& b) {
    return std::pair(a.tensor->file, a.tensor->offset) <
           std::pair(b.tensor->file, b.tensor->offset);
  });
  Load load(checkpoint, cut_into_chunks(jobs), options);
  FATHOM_TRY(load.allocate(pool.size()));
  pool.parallel_for(static_cast<int64_t>(load.chunk_count()), [&](int64_t unit, int worker) {
    load.deliver(static_cast<size_t>(unit), worker);
  });
  FATHOM_TRY(load.status());
  return LoadStats{load.total(), now_seconds() - start, load.content_hash()};
}

}  // namespace fathom
