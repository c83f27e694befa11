// Opens every file of a checkpoint, reads the headers and holds them against each other and the
// index.
#include "weights/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/file.h"
#include "core/log.h"
#include "weights/report.h"
#include "weights/shard.h"
#include "weights/shard_index.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// A whole file, mapped for reading. Owned by the checkpoint.
class Mapping {
 public:
  static Result<Mapping> map(const File& file) {
    Mapping mapping;
    if (file.size() == 0) return mapping;
    void* map = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    if (map == MAP_FAILED) {
      return error(Code::kOutOfMemory, fmt::format("cannot map {}: {}; load it without mmap",
                                                   file.path().string(), std::strerror(errno)));
    }
    mapping.data_ = static_cast<std::byte*>(map);
    mapping.size_ = file.size();
    return mapping;
  }
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  const std::byte* data() const { return data_; }

 private:
  Mapping() = default;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Where the index puts each tensor, while the shards are compared with it.
class IndexCheck {
 public:
  IndexCheck(const FileSet& set, OffenderReport& report) : set_(set), report_(report) {
    for (const auto& [tensor, file] : set.index->weight_map) expected_.emplace(tensor, file);
  }

  // `seen` maps every stored tensor to the file that holds it; `readable` has the files whose
  // headers could be read (of the others nothing is known, and they are in the report already).
  void run(const std::unordered_map<std::string_view, std::string_view>& seen,
           const std::unordered_set<std::string_view>& readable) {
    for (const auto& [tensor, file] : set_.index->weight_map) {
      const auto stored = seen.find(tensor);
      if (stored == seen.end()) {
        if (readable.count(file) == 0) continue;
        report_.add({"tensor of the index that its shard lacks", tensor, file, "no such tensor",
                     set_.index_file});
      } else if (stored->second != file) {
        report_.add({"tensor in another shard than the index says", tensor, file,
                     std::string(stored->second), set_.index_file});
      }
    }
  }

  void check_stored(const TensorInfo& tensor, const std::string& file) {
    if (expected_.count(tensor.name) > 0) return;
    report_.add({"tensor that the index does not list", tensor.name,
                 "an entry in " + set_.index_file, describe_tensor(tensor.dtype, tensor.shape),
                 file});
  }

 private:
  const FileSet& set_;
  OffenderReport& report_;
  std::unordered_map<std::string_view, std::string_view> expected_;
};

// How many tensors the index puts into `file`, and the first of them.
std::string lost_tensors(const FileSet& set, const std::string& file) {
  if (!set.index) return "";
  size_t count = 0;
  const std::string* first = nullptr;
  for (const auto& [tensor, holder] : set.index->weight_map) {
    if (holder != file) continue;
    if (first == nullptr) first = &tensor;
    ++count;
  }
  return first == nullptr
             ? ""
             : fmt::format(", with {} tensors ({}{})", count, *first, count > 1 ? ", ..." : "");
}

}  // namespace

int64_t element_count(const TensorInfo& tensor) {
  int64_t count = 1;
  for (const int64_t dimension : tensor.shape) count *= dimension;
  return count;
}

struct Checkpoint::Impl {
  fs::path folder;
  bool safetensors = false;
  std::vector<File> files;
  std::vector<std::string> file_names;
  std::vector<Mapping> mappings;  // empty unless mmap was asked for
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string_view, size_t> by_name;  // views of tensors' names
  uint64_t total_bytes = 0;
  uint64_t header_hash = 0;

  void read_shard(const FileSet& set, const std::string& name,
                  std::unordered_set<std::string_view>& readable, OffenderReport& report);
  void index_names(OffenderReport& report);
};

// Opens one file and appends its tensors.
void Checkpoint::Impl::read_shard(const FileSet& set, const std::string& name,
                                  std::unordered_set<std::string_view>& readable,
                                  OffenderReport& report) {
  const fs::path path = folder / name;
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status)) {
    report.add(
        {"missing file", name, "", "nothing, or a link to nothing" + lost_tensors(set, name), ""});
    return;
  }
  if (!fs::is_regular_file(status)) {
    report.add({"not a regular file", name, "weights",
                fs::is_directory(status) ? "a folder" : "a device or pipe", ""});
    return;
  }
  Result<File> file = File::open(path);
  if (!file) {
    report.add({"unreadable file", name, "", file.error().message(), ""});
    return;
  }
  const size_t problems = report.size();
  const FileSource source(*file);
  ShardHeader header = set.safetensors ? read_safetensors_header(source, name, report)
                                       : read_torch_bin_header(source, name, report);
  if (report.size() == problems) readable.insert(name);
  const auto number = static_cast<int>(files.size());
  for (TensorInfo& tensor : header.tensors) {
    tensor.file = number;
    total_bytes += tensor.bytes;
    tensors.push_back(std::move(tensor));
  }
  header_hash = XXH3_64bits_withSeed(name.data(), name.size(), header_hash ^ header.hash);
  files.push_back(*std::move(file));
  file_names.push_back(name);
}

// Fills by_name; a name that two files have is an offender.
void Checkpoint::Impl::index_names(OffenderReport& report) {
  by_name.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [entry, fresh] = by_name.emplace(tensors[i].name, i);
    if (fresh) continue;
    const std::string& first = file_names[static_cast<size_t>(tensors[entry->second].file)];
    const std::string& second = file_names[static_cast<size_t>(tensors[i].file)];
    if (first == second) continue;  // the header's reader has reported it
    report.add({"duplicate tensor", tensors[i].name, "one shard with it", first + " too", second});
  }
}

Result<Checkpoint> Checkpoint::open(const fs::path& model_dir, const CheckpointOptions& options) {
  OffenderReport report;
  FATHOM_ASSIGN(const FileSet set, find_weight_files(model_dir, report));
  return open_files(model_dir, set, options, report);
}

Result<Checkpoint> Checkpoint::open_file(const fs::path& file) {
  FileSet set;
  set.safetensors = true;
  set.files = {file.filename().string()};
  OffenderReport report;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return open_files(folder, set, {}, report);
}

Result<Checkpoint> Checkpoint::open_files(const fs::path& folder, const FileSet& set,
                                          const CheckpointOptions& options,
                                          OffenderReport& report) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  impl->safetensors = set.safetensors;
  std::unordered_set<std::string_view> readable;
  for (const std::string& name : set.files) impl->read_shard(set, name, readable, report);
  impl->index_names(report);
  if (set.index) {
    IndexCheck check(set, report);
    std::unordered_map<std::string_view, std::string_view> seen;
    for (const TensorInfo& tensor : impl->tensors) {
      const std::string& file = impl->file_names[static_cast<size_t>(tensor.file)];
      seen.emplace(tensor.name, file);
      check.check_stored(tensor, file);
    }
    check.run(seen, readable);
  }
  FATHOM_TRY(report.to_status(
      fmt::format("the weights in {} are damaged or inconsistent", folder.string())));
  if (impl->tensors.empty()) {
    return error(Code::kCorrupt, fmt::format("the weights in {} hold no tensors", folder.string()));
  }
  if (set.index && set.index->total_size && *set.index->total_size != impl->total_bytes) {
    log::warn("{}: total_size is {}, but the tensors have {} bytes",
              (folder / set.index_file).string(), *set.index->total_size, impl->total_bytes);
  }
  if (options.mmap) {
    for (const File& file : impl->files) {
      FATHOM_ASSIGN(Mapping mapping, Mapping::map(file));
      impl->mappings.push_back(std::move(mapping));
    }
  }
  return Checkpoint(std::move(impl));
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const fs::path& Checkpoint::folder() const {
  return impl_->folder;
}

const char* Checkpoint::format() const {
  const bool sharded = impl_->files.size() > 1;
  if (impl_->safetensors) return sharded ? "safetensors sharded" : "safetensors";
  return sharded ? "pytorch bin sharded" : "pytorch bin";
}

const std::vector<TensorInfo>& Checkpoint::tensors() const {
  return impl_->tensors;
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto found = impl_->by_name.find(name);
  return found == impl_->by_name.end() ? nullptr : &impl_->tensors[found->second];
}

int Checkpoint::file_count() const {
  return static_cast<int>(impl_->files.size());
}
const std::string& Checkpoint::file_name(int file) const {
  return impl_->file_names[static_cast<size_t>(file)];
}
uint64_t Checkpoint::total_bytes() const {
  return impl_->total_bytes;
}
uint64_t Checkpoint::header_hash() const {
  return impl_->header_hash;
}

Status Checkpoint::read(const TensorInfo& tensor, uint64_t byte_offset, void* out,
                        size_t bytes) const {
  if (byte_offset > tensor.bytes || bytes > tensor.bytes - byte_offset) {
    return {Code::kInternal,
            fmt::format("bytes {} to {} of {} were asked for, which has {}", byte_offset,
                        byte_offset + bytes, tensor.name, tensor.bytes)};
  }
  const File& file = impl_->files[static_cast<size_t>(tensor.file)];
  return file.read_at(tensor.offset + byte_offset, out, bytes)
      .with_context("tensor " + tensor.name);
}

const std::byte* Checkpoint::data(const TensorInfo& tensor) const {
  if (impl_->mappings.empty()) return nullptr;
  return impl_->mappings[static_cast<size_t>(tensor.file)].data() + tensor.offset;
}

void Checkpoint::prefetch(const TensorInfo& tensor, uint64_t byte_offset, uint64_t bytes) const {
  const File& file = impl_->files[static_cast<size_t>(tensor.file)];
  // A hint: where the system ignores it only speed is lost.
  ::posix_fadvise(file.descriptor(), static_cast<off_t>(tensor.offset + byte_offset),
                  static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

}  // namespace fathom
