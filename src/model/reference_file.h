// A file of reference values (safetensors), read tensor by tensor. Private to src/model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/status.h"
#include "weights/checkpoint.h"

namespace fathom {

class ReferenceFile {
 public:
  static Result<ReferenceFile> open(const std::filesystem::path& path);

  bool has(const std::string& name) const { return checkpoint_.find(name) != nullptr; }
  std::vector<std::string> names() const;                     // sorted
  std::vector<int64_t> shape(const std::string& name) const;  // empty if absent
  // All values; the error names the tensor. Integers must be I32 or I64 and fit int32.
  Result<std::vector<float>> floats(const std::string& name) const;
  Result<std::vector<int32_t>> ints(const std::string& name) const;

 private:
  explicit ReferenceFile(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}
  Result<std::vector<std::byte>> bytes(const std::string& name) const;

  Checkpoint checkpoint_;
};

}  // namespace fathom
