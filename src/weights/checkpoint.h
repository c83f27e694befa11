// The tensors of a checkpoint folder as their headers state them, and reads of their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/status.h"

namespace fathom {

class OffenderReport;
struct FileSet;

// One stored tensor: contiguous, row-major, little-endian, at one place of one file.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // empty for a scalar
  int file = 0;                // index for Checkpoint::file_name
  uint64_t offset = 0;         // of the first byte, from the start of the file
  uint64_t bytes = 0;          // product of shape * dtype_size(dtype)
};

int64_t element_count(const TensorInfo& tensor);

// How a checkpoint is opened.
struct CheckpointOptions {
  bool mmap =
      false;  // map the files, so that data() works; a file that shrinks later is then fatal
};

// A checkpoint whose headers have been read and found consistent. Only headers are read: opening a
// 700 GB model costs megabytes. Immutable, movable; every const method may be called from any
// thread.
class Checkpoint {
 public:
  // Looks, in this order, for model.safetensors, model.safetensors.index.json and its shards, a
  // complete set of model-00001-of-0000N.safetensors without index, pytorch_model.bin, and
  // pytorch_model.bin.index.json and its shards. Every defect of every file is listed in one
  // message (name, expected, found, file). A .bin is read by an unpickler that can build tensors
  // only.
  static Result<Checkpoint> open(const std::filesystem::path& model_dir,
                                 const CheckpointOptions& options = {});
  // One .safetensors file by its path, whatever its name: reference values, not a model.
  static Result<Checkpoint> open_file(const std::filesystem::path& file);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::filesystem::path& folder() const;
  const char* format()
      const;  // "safetensors", "safetensors sharded", "pytorch bin", "pytorch bin sharded"
  const std::vector<TensorInfo>& tensors() const;       // by file, then by offset
  const TensorInfo* find(std::string_view name) const;  // nullptr if there is none
  int file_count() const;
  const std::string& file_name(int file) const;  // without folder
  uint64_t total_bytes() const;                  // of all tensors
  // Hash of every file's name, size and header. It changes with names, types, shapes and layout;
  // the hash of the weights themselves comes from load_tensors.
  uint64_t header_hash() const;

  // Reads bytes [byte_offset, byte_offset + bytes) of the tensor into `out`.
  Status read(const TensorInfo& tensor, uint64_t byte_offset, void* out, size_t bytes) const;
  // The tensor's bytes in the mapped file; nullptr unless opened with mmap. May be unaligned.
  const std::byte* data(const TensorInfo& tensor) const;
  // Tells the system that this part of the tensor will be read soon.
  void prefetch(const TensorInfo& tensor, uint64_t byte_offset, uint64_t bytes) const;

 private:
  struct Impl;
  static Result<Checkpoint> open_files(const std::filesystem::path& folder, const FileSet& set,
                                       const CheckpointOptions& options, OffenderReport& report);
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
