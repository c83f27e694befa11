// Files and large anonymous memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/status.h"

namespace fathom {

// A file opened for reading. Positioned reads are thread-safe.
class File {
 public:
  static Result<File> open(const std::filesystem::path& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return fd_; }
  // Reads exactly `bytes` bytes at `offset`; an error names the file.
  Status read_at(uint64_t offset, void* out, size_t bytes) const;

 private:
  File() = default;
  int fd_ = -1;
  uint64_t size_ = 0;
  std::filesystem::path path_;
};

// Reads a whole file of at most `max_bytes` bytes.
Result<std::string> read_text_file(const std::filesystem::path& path, uint64_t max_bytes);

// Zeroed anonymous memory, aligned to 2 MiB, in huge pages where the system gives them.
class HugeBuffer {
 public:
  static Result<HugeBuffer> allocate(size_t bytes);
  HugeBuffer() = default;
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;
  ~HugeBuffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* map_ = nullptr;
  size_t map_size_ = 0;
};

uint64_t
available_memory_bytes();  // what a new allocation may take: MemAvailable, cgroup limit respected
uint64_t resident_memory_bytes();  // resident set of this process

}  // namespace fathom
