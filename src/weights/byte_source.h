// Where a parser of headers gets bytes from: a file, or memory in tests and fuzzers.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/file.h"
#include "core/status.h"

namespace fathom {

// Random access to a fixed number of bytes. Reads are thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // Reads exactly `bytes` bytes at `offset`.
  virtual Status read_at(uint64_t offset, void* out, size_t bytes) const = 0;
};

// Bytes of an open file, which must outlive the source.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const File& file) : file_(file) {}
  uint64_t size() const override { return file_.size(); }
  Status read_at(uint64_t offset, void* out, size_t bytes) const override {
    return file_.read_at(offset, out, bytes);
  }

 private:
  const File& file_;
};

// Bytes of somebody else's memory, which must outlive the source.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Status read_at(uint64_t offset, void* out, size_t bytes) const override {
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) {
      return {Code::kCorrupt, "the data ends too early; it is truncated"};
    }
    if (bytes > 0) std::memcpy(out, bytes_.data() + offset, bytes);
    return {};
  }

 private:
  std::string_view bytes_;
};

}  // namespace fathom
