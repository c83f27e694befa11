// Builds pickles and zip files byte by byte, so that each can be wrong in one chosen way.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/weights/test_files.h"

namespace fathom::testing {

// Pickle opcodes as text. Names follow Python's pickle module.
namespace pickle {

inline std::string text(const std::string& value) {
  return "X" + little_endian(value.size(), 4) + value;
}
inline std::string number(int64_t value) {
  if (value >= INT32_MIN && value <= INT32_MAX)
    return "J" + little_endian(static_cast<uint64_t>(value), 4);
  return "\x8a\x08" + little_endian(static_cast<uint64_t>(value), 8);
}
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string tuple(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (const int64_t value : values) out += number(value);
  return out + "t";
}
// A call of module.name on `arguments` (opcodes that push them).
inline std::string call(const std::string& module, const std::string& name,
                        const std::string& arguments) {
  return global(module, name) + "(" + arguments + "tR";
}
inline std::string ordered_dict() {
  return global("collections", "OrderedDict") + ")R";
}

// A tensor as torch._utils._rebuild_tensor_v2 makes it; defaults are a right one of F32 [2].
struct Tensor {
  std::string key = "0";
  std::string storage = "FloatStorage";
  int64_t elements = 2;
  int64_t offset = 0;
  std::vector<int64_t> shape = {2};
  std::vector<int64_t> stride = {1};
};
inline std::string tensor(const Tensor& t = {}) {
  return call("torch._utils", "_rebuild_tensor_v2",
              "(" + text("storage") + global("torch", t.storage) + text(t.key) + text("cpu") +
                  number(t.elements) + "tQ" + number(t.offset) + tuple(t.shape) + tuple(t.stride) +
                  "\x89" + ordered_dict());
}

// A whole pickle of the dict {name: value}; values are opcodes.
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out = "\x80\x02}(";
  for (const auto& [name, value] : entries) out += text(name) + value;
  return out + "u.";
}

}  // namespace pickle

// One entry of a zip file and its lies: what the local header and the directory say of it.
struct ZipPart {
  std::string name;
  std::string data;
  uint16_t method = 0;
  uint16_t flags = 0;
  int64_t directory_size = -1;    // of the data; -1 is the truth
  int64_t directory_offset = -1;  // of the local header; -1 is the truth
  std::string local_name = {};    // empty is the truth
};

inline std::string zip_file(const std::vector<ZipPart>& parts) {
  std::string file;
  std::string directory;
  for (const ZipPart& part : parts) {
    const uint64_t offset =
        part.directory_offset < 0 ? file.size() : static_cast<uint64_t>(part.directory_offset);
    const uint64_t size =
        part.directory_size < 0 ? part.data.size() : static_cast<uint64_t>(part.directory_size);
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(part.data.data()),
                           static_cast<uInt>(part.data.size()));
    const std::string common = little_endian(20, 2) + little_endian(part.flags, 2) +
                               little_endian(part.method, 2) + little_endian(0, 4) +
                               little_endian(crc, 4) + little_endian(size, 4) +
                               little_endian(size, 4);
    const std::string& local_name = part.local_name.empty() ? part.name : part.local_name;
    file += "PK\x03\x04" + common + little_endian(local_name.size(), 2) + little_endian(0, 2) +
            local_name + part.data;
    directory += "PK\x01\x02" + little_endian(20, 2) + common + little_endian(part.name.size(), 2) +
                 std::string(8, '\0') + std::string(4, '\0') + little_endian(offset, 4) + part.name;
  }
  return file + directory + "PK\x05\x06" + little_endian(0, 4) + little_endian(parts.size(), 2) +
         little_endian(parts.size(), 2) + little_endian(directory.size(), 4) +
         little_endian(file.size(), 4) + little_endian(0, 2);
}

// A torch file around a pickle, with one storage "0" of `storage_bytes` bytes.
inline std::string torch_file(const std::string& pickle, size_t storage_bytes = 8) {
  return zip_file({{"m/data.pkl", pickle},
                   {"m/byteorder", "little"},
                   {"m/data/0", std::string(storage_bytes, '\x01')},
                   {"m/version", "3\n"}});
}

inline std::string repeat(const std::string& part, size_t times) {
  std::string out;
  out.reserve(part.size() * times);
  for (size_t i = 0; i < times; ++i) out += part;
  return out;
}

// One damaged checkpoint: how to write it, and what the message must say.
struct HostileCase {
  std::string name;
  std::vector<std::pair<std::string, std::string>> files;  // name, content
  std::vector<std::string> expected;                       // parts of the message
};

// Opens the checkpoint and expects a refusal, bounded in message and memory, that says all of
// `expected`.
void expect_refusal(const std::filesystem::path& folder, const std::string& name,
                    const std::vector<std::string>& expected);
void expect_refusal(const HostileCase& hostile);

}  // namespace fathom::testing
