// POSIX files, anonymous mappings and memory figures.
#include "core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>

namespace fathom {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

Code code_of_errno(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR ? Code::kNotFound
                                                           : Code::kInvalidArgument;
}

// One number from a one-number file such as a cgroup limit; `absent` if it has none.
uint64_t read_number(const char* path, uint64_t absent) {
  std::ifstream in(path);
  uint64_t value = 0;
  return in >> value ? value : absent;
}

}  // namespace

Result<File> File::open(const std::filesystem::path& path) {
  File file;
  file.path_ = path;
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever; on files it means
  // nothing.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) {
    const int saved = errno;
    return error(code_of_errno(saved),
                 fmt::format("cannot open {}: {}", path.string(), std::strerror(saved)));
  }
  struct stat info {};
  if (::fstat(file.fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    return error(Code::kInvalidArgument, fmt::format("{} is not a regular file", path.string()));
  }
  file.size_ = static_cast<uint64_t>(info.st_size);
  return file;
}

File::File(File&& other) noexcept {
  *this = std::move(other);
}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Status File::read_at(uint64_t offset, void* out, size_t bytes) const {
  char* cursor = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got =
        ::pread(fd_, cursor, std::min<size_t>(bytes, size_t{1} << 30), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return {Code::kCorrupt, fmt::format("reading {} at byte {}: {}", path_.string(), offset,
                                          std::strerror(errno))};
    }
    if (got == 0) {
      return {Code::kCorrupt,
              fmt::format("{} ends at byte {}, {} more were expected; the file is truncated",
                          path_.string(), offset, bytes)};
    }
    cursor += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return {};
}

Result<std::string> read_text_file(const std::filesystem::path& path, uint64_t max_bytes) {
  FATHOM_ASSIGN(File file, File::open(path));
  if (file.size() > max_bytes) {
    return error(Code::kInvalidArgument,
                 fmt::format("{} has {} bytes; at most {} are accepted here", path.string(),
                             file.size(), max_bytes));
  }
  std::string text(file.size(), '\0');
  FATHOM_TRY(file.read_at(0, text.data(), text.size()));
  return text;
}

Result<HugeBuffer> HugeBuffer::allocate(size_t bytes) {
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  if (bytes > std::numeric_limits<size_t>::max() - 2 * kHugePage) {
    return error(Code::kOutOfMemory, fmt::format("cannot allocate {} bytes", bytes));
  }
  const size_t length = (bytes + kHugePage - 1) / kHugePage * kHugePage + kHugePage;
  void* map = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) {
    return error(Code::kOutOfMemory,
                 fmt::format("cannot allocate {} bytes: {}", bytes, std::strerror(errno)));
  }
  const auto address = reinterpret_cast<uintptr_t>(map);
  buffer.map_ = map;
  buffer.map_size_ = length;
  buffer.data_ = reinterpret_cast<std::byte*>((address + kHugePage - 1) / kHugePage * kHugePage);
  buffer.size_ = bytes;
  ::madvise(map, length, MADV_HUGEPAGE);  // a hint: without it only speed is lost
  return buffer;
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept {
  *this = std::move(other);
}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(map_, other.map_);
  std::swap(map_size_, other.map_size_);
  return *this;
}

HugeBuffer::~HugeBuffer() {
  if (map_ != nullptr) ::munmap(map_, map_size_);
}

uint64_t available_memory_bytes() {
  uint64_t available = std::numeric_limits<uint64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string unit;
  while (meminfo >> key >> kib) {
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") available = kib * 1024;
  }
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  const uint64_t limit =
      read_number("/sys/fs/cgroup/memory.max", kNone);  // the file may hold "max"
  const uint64_t used = read_number("/sys/fs/cgroup/memory.current", 0);
  if (limit != kNone) available = std::min(available, limit > used ? limit - used : 0);
  return available;
}

uint64_t resident_memory_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace fathom
