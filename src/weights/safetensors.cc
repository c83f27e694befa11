// The header of a safetensors file: 8 bytes of length, JSON, then the data without gaps.
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "weights/shard.h"
#include "weights/strict_json.h"

namespace fathom {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the safetensors library
constexpr size_t kMaxDepth = 3;               // header object, tensor object, shape array

// A tensor as the header states it, before any check.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<uint64_t> offsets;
  std::string defect;  // the first thing wrong with its fields
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
};

// Fills entries from the header's JSON; structural surprises end the parse, the rest is per tensor.
class HeaderVisitor final : public JsonVisitor {
 public:
  HeaderVisitor(const std::string& file, OffenderReport& report) : file_(file), report_(report) {}

  bool begin(const Path& path, bool array) override {
    if (path.empty()) return array ? fail("it is a JSON array, not an object") : true;
    if (path.size() == 1) {
      in_metadata_ = path[0] == "__metadata__";
      if (in_metadata_) return true;
      if (entries.size() >= kMaxTensorsPerFile) {
        return fail(fmt::format("it names more than {} tensors", kMaxTensorsPerFile));
      }
      entries.emplace_back();
      entries.back().name = path[0];
      if (array) entries.back().defect = "its entry is an array, not an object";
      return true;
    }
    if (in_metadata_) return true;
    Entry& entry = entries.back();
    if (array && path[1] == "shape") entry.has_shape = true;
    if (array && path[1] == "data_offsets") entry.has_offsets = true;
    return true;
  }

  bool scalar(const Path& path, JsonScalar value) override {
    if (path.empty()) return fail("it is not a JSON object");
    if (path.size() == 1) {
      if (path[0] != "__metadata__") {
        report_.add({"malformed entry of tensor", path[0], "an object", "a plain value", file_});
      }
      return true;
    }
    if (in_metadata_) return true;
    Entry& entry = entries.back();
    if (path.size() == 2 && path[1] == "dtype") {
      entry.has_dtype = value.kind == JsonScalar::Kind::kString;
      entry.dtype = std::move(value.text);
    } else if (path.size() == 3 && path[1] == "shape") {
      add_dimension(entry, value);
    } else if (path.size() == 3 && path[1] == "data_offsets") {
      if (value.kind != JsonScalar::Kind::kUnsigned)
        note(entry, "data_offsets must be two whole numbers");
      if (entry.offsets.size() < 3) entry.offsets.push_back(value.number);
    }
    return true;
  }

  bool end(const Path&) override { return true; }

  bool duplicate_key(const Path& path) override {
    if (path.size() == 1) {
      report_.add({"duplicate tensor", path[0], "one entry in the header", "two", file_});
    } else if (!in_metadata_) {
      note(entries.back(), fmt::format("its entry has the key {} twice", path.back()));
    }
    return true;
  }

  std::vector<Entry> entries;

 private:
  static void note(Entry& entry, std::string defect) {
    if (entry.defect.empty()) entry.defect = std::move(defect);
  }

  static void add_dimension(Entry& entry, const JsonScalar& value) {
    if (value.kind == JsonScalar::Kind::kNegative)
      return note(entry, "its shape has a negative dimension");
    if (value.kind != JsonScalar::Kind::kUnsigned) {
      return note(entry, "its shape has a dimension that is not a whole number");
    }
    if (value.number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return note(entry, fmt::format("its shape has a dimension of {}", value.number));
    }
    if (entry.shape.size() >= kMaxRank) {
      return note(entry, fmt::format("its shape has more than {} dimensions", kMaxRank));
    }
    entry.shape.push_back(static_cast<int64_t>(value.number));
  }

  const std::string& file_;
  OffenderReport& report_;
  bool in_metadata_ = false;
};

// Checks what an entry says by itself. Returns whether its byte range can be believed.
bool check_entry(const Entry& entry, const std::string& file, TensorInfo& tensor,
                 OffenderReport& report) {
  std::string defect = entry.defect;
  if (defect.empty() && !entry.has_dtype) defect = "its entry has no dtype";
  if (defect.empty() && !entry.has_shape) defect = "its entry has no shape";
  if (defect.empty() && (!entry.has_offsets || entry.offsets.size() != 2)) {
    defect = "its entry does not have two data_offsets";
  }
  if (!defect.empty()) {
    report.add({"malformed entry of tensor", entry.name, "", defect, file});
    return false;
  }
  const std::optional<DType> dtype = dtype_from_name(entry.dtype);
  if (!dtype) {
    report.add({"unsupported element type of tensor", entry.name,
                "F64, F32, F16, BF16, F8_E4M3, F8_E5M2, F8_E8M0, I64, I32, I16, I8, U8 or BOOL",
                entry.dtype, file});
    return false;
  }
  const std::optional<uint64_t> count = checked_element_count(entry.shape);
  if (!count || *count > (uint64_t{1} << 62) / dtype_size(*dtype)) {
    report.add({"impossible shape of tensor", entry.name, "a size below 2^62 bytes",
                describe_tensor(*dtype, entry.shape), file});
    return false;
  }
  const uint64_t begin = entry.offsets[0];
  const uint64_t end = entry.offsets[1];
  if (begin > end || end - begin != *count * dtype_size(*dtype)) {
    report.add({"wrong byte range of tensor", entry.name,
                fmt::format("{} bytes for {}", *count * dtype_size(*dtype),
                            describe_tensor(*dtype, entry.shape)),
                fmt::format("data_offsets [{}, {}]", begin, end), file});
    return false;
  }
  tensor.name = entry.name;
  tensor.dtype = *dtype;
  tensor.shape = entry.shape;
  tensor.offset = begin;
  tensor.bytes = end - begin;
  return true;
}

// The file stops before the tensors do, and nothing else is wrong: one line for all of them.
void report_truncation(const std::vector<TensorInfo>& sorted, uint64_t data_size,
                       uint64_t data_begin, const std::string& file, OffenderReport& report) {
  size_t cut = 0;
  const TensorInfo* first = nullptr;
  for (const TensorInfo& tensor : sorted) {
    if (tensor.offset + tensor.bytes <= data_size) continue;
    if (first == nullptr) first = &tensor;
    ++cut;
  }
  const TensorInfo& last = sorted.back();
  report.add({"truncated file, which cuts tensor", first->name,
              fmt::format("{} bytes", data_begin + last.offset + last.bytes),
              fmt::format("{} bytes; {} of {} tensors are cut or absent, download the file again",
                          data_begin + data_size, cut, sorted.size()),
              file});
}

// Tensors must follow one another and fill the data exactly. `sorted` is by offset.
void check_layout(const std::vector<TensorInfo>& sorted, uint64_t data_size, uint64_t data_begin,
                  const std::string& file, OffenderReport& report) {
  bool gapless = true;
  uint64_t reached = 0;
  for (const TensorInfo& tensor : sorted) {
    gapless = gapless && tensor.offset == reached;
    reached = std::max(reached, tensor.offset + tensor.bytes);
  }
  if (gapless && reached > data_size) {
    return report_truncation(sorted, data_size, data_begin, file, report);
  }
  reached = 0;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo& tensor : sorted) {
    const uint64_t end = tensor.offset + tensor.bytes;
    const std::string range = fmt::format("data_offsets [{}, {}]", tensor.offset, end);
    if (end > data_size) {
      report.add({"out-of-range offsets of tensor", tensor.name,
                  fmt::format("at most {}, the end of the data", data_size), range, file});
    }
    if (tensor.offset < reached) {
      report.add({"overlapping tensor", tensor.name,
                  fmt::format("a begin of at least {}, where {} ends", reached, previous->name),
                  range, file});
    } else if (tensor.offset > reached) {
      report.add({"hole in the data before tensor", tensor.name,
                  fmt::format("a begin of {}", reached), range, file});
    }
    if (end >= reached) {
      reached = end;
      previous = &tensor;
    }
  }
  if (reached < data_size) {
    report.add({"bytes after the last tensor", previous == nullptr ? "" : previous->name,
                fmt::format("{} bytes", data_begin + reached),
                fmt::format("{} bytes", data_begin + data_size), file});
  }
}

// The header's JSON text, or nothing with its reason in the report.
std::optional<std::string> read_json(const ByteSource& source, const std::string& file,
                                     OffenderReport& report) {
  std::array<unsigned char, 8> prefix{};
  if (source.size() < prefix.size()) {
    report.add({"not a safetensors file", "", "at least 8 bytes",
                fmt::format("{} bytes", source.size()), file});
    return std::nullopt;
  }
  if (Status status = source.read_at(0, prefix.data(), prefix.size()); !status.ok()) {
    report.add({"unreadable file", "", "", status.message(), file});
    return std::nullopt;
  }
  uint64_t length = 0;
  for (size_t i = prefix.size(); i-- > 0;) length = length << 8 | prefix[i];
  if (length > kMaxHeader || length > source.size() - prefix.size()) {
    const bool pointer = std::memcmp(prefix.data(), "version ", prefix.size()) == 0;
    report.add(
        {"wrong header length", "",
         fmt::format("at most {} bytes", std::min(kMaxHeader, source.size() - prefix.size())),
         pointer ? "a Git LFS pointer, not the weights; run git lfs pull in the folder"
                 : fmt::format("{}; the file is truncated or not safetensors", length),
         file});
    return std::nullopt;
  }
  std::string json(length, '\0');
  if (Status status = source.read_at(prefix.size(), json.data(), json.size()); !status.ok()) {
    report.add({"unreadable header", "", "", status.message(), file});
    return std::nullopt;
  }
  if (json.empty() || json.front() != '{') {
    report.add({"malformed header", "", "a JSON object", "something else", file});
    return std::nullopt;
  }
  return json;
}

}  // namespace

std::optional<uint64_t> checked_element_count(const std::vector<int64_t>& shape) {
  // A zero makes the product zero, but must not hide that the others overflow.
  uint64_t product = 1;
  bool empty = false;
  for (const int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (dimension == 0) {
      empty = true;
      continue;
    }
    if (__builtin_mul_overflow(product, static_cast<uint64_t>(dimension), &product))
      return std::nullopt;
    if (product > uint64_t{1} << 62) return std::nullopt;
  }
  return empty ? 0 : product;
}

ShardHeader read_safetensors_header(const ByteSource& source, const std::string& file,
                                    OffenderReport& report) {
  ShardHeader header;
  const std::optional<std::string> json = read_json(source, file, report);
  if (!json) return header;
  header.hash = XXH3_64bits_withSeed(json->data(), json->size(), source.size());
  HeaderVisitor visitor(file, report);
  if (Status status = visit_json(*json, kMaxDepth, visitor); !status.ok()) {
    const std::string last = visitor.entries.empty() ? "" : visitor.entries.back().name;
    report.add({last.empty() ? "malformed header" : "malformed header at or after tensor", last, "",
                status.message(), file});
    return header;
  }
  bool ranges_known = true;
  for (const Entry& entry : visitor.entries) {
    TensorInfo tensor;
    if (check_entry(entry, file, tensor, report)) {
      header.tensors.push_back(std::move(tensor));
    } else {
      ranges_known = false;
    }
  }
  std::stable_sort(
      header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
        return std::pair(a.offset, a.offset + a.bytes) < std::pair(b.offset, b.offset + b.bytes);
      });
  const uint64_t data_begin = 8 + json->size();
  // With a range unknown, holes and overlaps would be guesses.
  if (ranges_known)
    check_layout(header.tensors, source.size() - data_begin, data_begin, file, report);
  for (TensorInfo& tensor : header.tensors) tensor.offset += data_begin;
  return header;
}

}  // namespace fathom
