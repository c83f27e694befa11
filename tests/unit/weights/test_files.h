// Helpers of the weights tests: temporary folders, safetensors files built from parts.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace fathom::testing {

// A folder that disappears with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fathom-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream out(path_ / name, std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string little_endian(uint64_t value, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return out;
}

// A safetensors file from its header text and data.
inline std::string safetensors_file(const std::string& header, const std::string& data) {
  return little_endian(header.size(), 8) + header + data;
}

// A tensor to be written.
struct TestTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string bytes;
};

inline std::string safetensors_file(const std::vector<TestTensor>& tensors) {
  std::string header = "{";
  std::string data;
  for (const TestTensor& tensor : tensors) {
    std::string shape;
    for (const int64_t dimension : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(dimension);
    }
    header += (header.size() > 1 ? "," : "") + ('"' + tensor.name + "\":{\"dtype\":\"") +
              dtype_name(tensor.dtype) + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
              std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  return safetensors_file(header + "}", data);
}

// A tensor [count] of U8 with bytes first, first + 1, ...
inline TestTensor byte_tensor(const std::string& name, size_t count, unsigned first = 0) {
  TestTensor tensor{name, DType::kU8, {static_cast<int64_t>(count)}, {}};
  for (size_t i = 0; i < count; ++i) tensor.bytes.push_back(static_cast<char>((first + i) & 0xff));
  return tensor;
}

}  // namespace fathom::testing
