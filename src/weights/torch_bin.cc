// pytorch_model.bin: a zip file with data.pkl (what the tensors are) and data/KEY (their bytes).
#include <fmt/format.h>
#include <xxhash.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "core/log.h"
#include "weights/pickle.h"
#include "weights/shard.h"
#include "weights/zip_reader.h"

namespace fathom {
namespace {

constexpr std::string_view kPickleName = "/data.pkl";

// The archive's entries by their name below the top folder, whose name torch derives from the
// file's.
struct Archive {
  std::unordered_map<std::string, ZipEntry> entries;
};

// What kind of file this is, if not a zip; empty for a zip.
std::string foreign_format(const ByteSource& source) {
  std::array<unsigned char, 4> start{};
  if (source.size() < start.size() || !source.read_at(0, start.data(), start.size()).ok()) {
    return fmt::format("{} bytes, too few for any weights", source.size());
  }
  if (start[0] == 'P' && start[1] == 'K') return "";
  if (start[0] == 0x80) {
    return "the format of torch before 1.6. Convert it once with torch: "
           "torch.save(torch.load(FILE, map_location='cpu', weights_only=True), FILE)";
  }
  if (std::memcmp(start.data(), "vers", 4) == 0) {
    return "a Git LFS pointer, not the weights; run git lfs pull in the folder";
  }
  return "something that is neither zip nor pickle";
}

Result<Archive> open_archive(const ByteSource& source) {
  FATHOM_ASSIGN(std::vector<ZipEntry> entries, read_zip_directory(source));
  std::string top;
  for (const ZipEntry& entry : entries) {
    const bool pickle = entry.name.ends_with(kPickleName) &&
                        entry.name.find('/') == entry.name.size() - kPickleName.size();
    if (!pickle) continue;
    if (!top.empty()) return error(Code::kCorrupt, "it has more than one data.pkl");
    top = entry.name.substr(0, entry.name.size() - kPickleName.size() + 1);
  }
  if (top.empty())
    return error(Code::kCorrupt,
                 "it is a zip file without data.pkl, so torch.save did not write it");
  Archive archive;
  for (ZipEntry& entry : entries) {
    if (!entry.name.starts_with(top)) {
      return error(Code::kCorrupt, fmt::format("its entry {} lies outside of {}", entry.name, top));
    }
    std::string name = entry.name.substr(top.size());
    archive.entries.emplace(std::move(name), std::move(entry));
  }
  if (archive.entries.count("constants.pkl") > 0) {
    return error(Code::kUnsupported,
                 "it is a TorchScript program; save model.state_dict() with torch.save instead");
  }
  return archive;
}

Result<std::string> read_entry(const ByteSource& source, const ZipEntry& entry, uint64_t limit) {
  if (entry.bytes > limit) {
    return error(Code::kCorrupt, fmt::format("its entry {} has {} bytes; at most {} are accepted",
                                             entry.name, entry.bytes, limit));
  }
  std::string text(entry.bytes, '\0');
  FATHOM_TRY(source.read_at(entry.offset, text.data(), text.size()));
  return text;
}

// data.pkl, after the entries that change its meaning were looked at.
Result<std::string> read_pickle(const ByteSource& source, const Archive& archive,
                                const std::string& file) {
  if (const auto order = archive.entries.find("byteorder"); order != archive.entries.end()) {
    FATHOM_ASSIGN(const std::string text, read_entry(source, order->second, 16));
    if (text != "little") {
      return error(
          Code::kUnsupported,
          fmt::format("its byte order is \"{}\"; save it again on a little-endian machine", text));
    }
  }
  const ZipEntry& entry = archive.entries.at("data.pkl");
  FATHOM_ASSIGN(std::string pickle, read_entry(source, entry, kMaxPickleBytes));
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(pickle.data()), static_cast<uInt>(pickle.size()));
  // torch can be told to write no checksums, and never checks them.
  if (crc != entry.crc)
    log::warn("{}: the checksum of data.pkl is wrong; the file may be damaged", file);
  return pickle;
}

bool is_contiguous(const PickledTensor& tensor) {
  uint64_t expected = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] == 0) return true;  // no elements, so strides mean nothing
    if (tensor.shape[i] != 1 && static_cast<uint64_t>(tensor.stride[i]) != expected) return false;
    expected *= static_cast<uint64_t>(tensor.shape[i]);
  }
  return true;
}

// Finds the tensor's bytes; says why not otherwise.
bool place_tensor(const PickledTensor& pickled, const Archive& archive, const std::string& file,
                  TensorInfo& tensor, OffenderReport& report) {
  const std::string described = describe_tensor(pickled.dtype, pickled.shape);
  const std::optional<uint64_t> count = checked_element_count(pickled.shape);
  const uint64_t size = dtype_size(pickled.dtype);
  if (!count || *count > (uint64_t{1} << 62) / size) {
    report.add(
        {"impossible shape of tensor", pickled.name, "a size below 2^62 bytes", described, file});
    return false;
  }
  if (!is_contiguous(pickled)) {
    report.add({"tensor that is a strided view", pickled.name,
                "contiguous data; call .contiguous() before torch.save",
                fmt::format("{} with strides [{}]", described, fmt::join(pickled.stride, ", ")),
                file});
    return false;
  }
  const auto entry = archive.entries.find("data/" + pickled.storage_key);
  if (entry == archive.entries.end()) {
    report.add({"absent data of tensor", pickled.name,
                fmt::format("an entry data/{}", pickled.storage_key), "none", file});
    return false;
  }
  const uint64_t stored = entry->second.bytes;
  const auto elements = static_cast<uint64_t>(pickled.storage_elements);
  if (elements > stored || elements * dtype_size(pickled.storage_dtype) != stored) {
    report.add({"wrong size of the data of tensor", pickled.name,
                fmt::format("{} elements of {}", elements, dtype_name(pickled.storage_dtype)),
                fmt::format("{} bytes in data/{}", stored, pickled.storage_key), file});
    return false;
  }
  const auto first = static_cast<uint64_t>(pickled.storage_offset);
  if (first > stored / size || *count > stored / size - first) {
    report.add({"tensor outside of its data", pickled.name,
                fmt::format("at most {} elements", stored / size),
                fmt::format("{} at element {}", described, first), file});
    return false;
  }
  tensor = {pickled.name, pickled.dtype, pickled.shape, 0, entry->second.offset + first * size,
            *count * size};
  return true;
}

}  // namespace

ShardHeader read_torch_bin_header(const ByteSource& source, const std::string& file,
                                  OffenderReport& report) {
  ShardHeader header;
  if (const std::string foreign = foreign_format(source); !foreign.empty()) {
    report.add({"not a torch zip file", "", "what torch.save writes since 1.6", foreign, file});
    return header;
  }
  const Result<Archive> archive = open_archive(source);
  if (!archive) {
    report.add({"refused torch file", "", "", archive.error().message(), file});
    return header;
  }
  const Result<std::string> pickle = read_pickle(source, *archive, file);
  if (!pickle) {
    report.add({"refused torch file", "", "", pickle.error().message(), file});
    return header;
  }
  header.hash = XXH3_64bits_withSeed(pickle->data(), pickle->size(), source.size());
  for (const PickledTensor& pickled : read_pickled_tensors(*pickle, file, report)) {
    TensorInfo tensor;
    if (place_tensor(pickled, *archive, file, tensor, report))
      header.tensors.push_back(std::move(tensor));
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const TensorInfo& a, const TensorInfo& b) { return a.offset < b.offset; });
  return header;
}

}  // namespace fathom
