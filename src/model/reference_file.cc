// A file of reference values (safetensors), read tensor by tensor.
#include "model/reference_file.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/file.h"
#include "weights/convert.h"

namespace fathom {
namespace {

Status wrong(const std::string& name, const std::string& what) {
  return {Code::kInvalidArgument, "the reference's tensor " + name + " " + what};
}

template <typename T>
bool narrow(const std::vector<std::byte>& bytes, std::vector<int32_t>& out) {
  out.resize(bytes.size() / sizeof(T));
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    if (value < std::numeric_limits<int32_t>::min() ||
        value > std::numeric_limits<int32_t>::max()) {
      return false;
    }
    out[i] = static_cast<int32_t>(value);
  }
  return true;
}

}  // namespace

Result<ReferenceFile> ReferenceFile::open(const std::filesystem::path& path) {
  // A mistyped name is no damaged checkpoint.
  if (const Result<File> file = File::open(path); !file) return error(file.error());
  Result<Checkpoint> checkpoint = Checkpoint::open_file(path);
  if (!checkpoint) {
    return error(checkpoint.error().with_context("the reference file " + path.string()));
  }
  return ReferenceFile(std::move(*checkpoint));
}

std::vector<std::string> ReferenceFile::names() const {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : checkpoint_.tensors()) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int64_t> ReferenceFile::shape(const std::string& name) const {
  const TensorInfo* tensor = checkpoint_.find(name);
  return tensor == nullptr ? std::vector<int64_t>() : tensor->shape;
}

Result<std::vector<std::byte>> ReferenceFile::bytes(const std::string& name) const {
  const TensorInfo* tensor = checkpoint_.find(name);
  if (tensor == nullptr) return error(wrong(name, "is missing"));
  std::vector<std::byte> bytes(tensor->bytes);
  FATHOM_TRY(checkpoint_.read(*tensor, 0, bytes.data(), bytes.size()));
  return bytes;
}

Result<std::vector<float>> ReferenceFile::floats(const std::string& name) const {
  FATHOM_ASSIGN(const std::vector<std::byte> stored, bytes(name));
  const DType dtype = checkpoint_.find(name)->dtype;
  if (dtype != DType::kF64 && dtype != DType::kF32 && dtype != DType::kF16 &&
      dtype != DType::kBF16) {
    return error(wrong(name, std::string("has type ") + dtype_name(dtype) + ", not a float type"));
  }
  std::vector<float> values(stored.size() / dtype_size(dtype));
  to_float(dtype, stored.data(), values.data(), values.size());
  return values;
}

Result<std::vector<int32_t>> ReferenceFile::ints(const std::string& name) const {
  FATHOM_ASSIGN(const std::vector<std::byte> stored, bytes(name));
  const DType dtype = checkpoint_.find(name)->dtype;
  std::vector<int32_t> values;
  if (dtype == DType::kI64 ? !narrow<int64_t>(stored, values)
                           : dtype != DType::kI32 || !narrow<int32_t>(stored, values)) {
    return error(wrong(name, "does not hold 32-bit integers (I32, or I64 of that range)"));
  }
  return values;
}

}  // namespace fathom
