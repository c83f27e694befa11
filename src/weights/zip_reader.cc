// minizip over a ByteSource: the directory is walked, and every stored entry's place is asked for.
#include "weights/zip_reader.h"

#include <fmt/format.h>
#include <minizip/unzip.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
#include <unordered_set>

namespace fathom {
namespace {

constexpr uint64_t kMaxEntries = uint64_t{1} << 20;

// What minizip's callbacks see of the source.
struct Stream {
  const ByteSource* source = nullptr;
  uint64_t position = 0;
  bool failed = false;  // a read came out short, which minizip does not always notice
};

voidpf open_stream(voidpf opaque, const void*, int) {
  return opaque;
}
uLong write_stream(voidpf, voidpf, const void*, uLong) {
  return 0;
}
int close_stream(voidpf, voidpf) {
  return 0;
}
int stream_error(voidpf, voidpf) {
  return 0;
}
ZPOS64_T tell_stream(voidpf, voidpf handle) {
  return static_cast<Stream*>(handle)->position;
}

uLong read_stream(voidpf, voidpf handle, void* out, uLong bytes) {
  auto* stream = static_cast<Stream*>(handle);
  const uint64_t size = stream->source->size();
  const uint64_t left = stream->position < size ? size - stream->position : 0;
  const uint64_t count = std::min<uint64_t>(bytes, left);
  if (count < bytes) stream->failed = true;
  if (!stream->source->read_at(stream->position, out, count).ok()) {
    stream->failed = true;
    return 0;
  }
  stream->position += count;
  return static_cast<uLong>(count);
}

long seek_stream(voidpf, voidpf handle, ZPOS64_T offset, int origin) {
  auto* stream = static_cast<Stream*>(handle);
  uint64_t base = 0;
  if (origin == ZLIB_FILEFUNC_SEEK_CUR) base = stream->position;
  if (origin == ZLIB_FILEFUNC_SEEK_END) base = stream->source->size();
  const uint64_t target = base + offset;  // wraps for a negative offset, as lseek's would
  if (target > stream->source->size()) return -1;
  stream->position = target;
  return 0;
}

struct CloseZip {
  void operator()(void* zip) const { unzClose(zip); }
};
using Zip = std::unique_ptr<std::remove_pointer_t<unzFile>, CloseZip>;

// The entry that minizip stands on.
Result<ZipEntry> read_entry(unzFile zip, uint64_t file_size) {
  unz_file_info64 info{};
  std::string name(std::numeric_limits<uint16_t>::max(), '\0');
  if (unzGetCurrentFileInfo64(zip, &info, name.data(), name.size(), nullptr, 0, nullptr, 0) !=
      UNZ_OK) {
    return error(Code::kCorrupt, "its zip directory is damaged; the file may be truncated");
  }
  name.resize(std::min<size_t>(info.size_filename, name.size()));
  if ((info.flag & 1u) != 0) {
    return error(Code::kUnsupported, fmt::format("its zip entry {} is encrypted", name));
  }
  if (info.compression_method != 0 || info.compressed_size != info.uncompressed_size) {
    return error(
        Code::kUnsupported,
        fmt::format(
            "its zip entry {} is compressed; torch.save stores without compression, so load "
            "and save the file again with torch",
            name));
  }
  if (unzOpenCurrentFile(zip) != UNZ_OK) {
    return error(Code::kCorrupt,
                 fmt::format("its zip entry {} disagrees with the zip directory", name));
  }
  ZipEntry entry{std::move(name), unzGetCurrentFileZStreamPos64(zip), info.uncompressed_size,
                 static_cast<uint32_t>(info.crc)};
  unzCloseCurrentFile(zip);
  if (entry.offset > file_size || entry.bytes > file_size - entry.offset) {
    return error(
        Code::kCorrupt,
        fmt::format(
            "its zip entry {} runs past the end of the file ({} bytes at {}, the file has {}); "
            "the file is truncated",
            entry.name, entry.bytes, entry.offset, file_size));
  }
  return entry;
}

Status check_overlaps(const std::vector<ZipEntry>& entries) {
  std::vector<const ZipEntry*> sorted;
  for (const ZipEntry& entry : entries) {
    if (entry.bytes > 0) sorted.push_back(&entry);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const ZipEntry* a, const ZipEntry* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->bytes) {
      return {Code::kCorrupt, fmt::format("its zip entries {} and {} overlap", sorted[i - 1]->name,
                                          sorted[i]->name)};
    }
  }
  return {};
}

}  // namespace

Result<std::vector<ZipEntry>> read_zip_directory(const ByteSource& source) {
  Stream stream{&source};
  zlib_filefunc64_def functions{};
  functions.zopen64_file = open_stream;
  functions.zread_file = read_stream;
  functions.zwrite_file = write_stream;
  functions.ztell64_file = tell_stream;
  functions.zseek64_file = seek_stream;
  functions.zclose_file = close_stream;
  functions.zerror_file = stream_error;
  functions.opaque = &stream;
  const Zip zip(unzOpen2_64("checkpoint", &functions));
  if (zip == nullptr || stream.failed) {
    return error(Code::kCorrupt,
                 "it has no readable zip directory; the file is truncated or damaged");
  }
  unz_global_info64 global{};
  if (unzGetGlobalInfo64(zip.get(), &global) != UNZ_OK || global.number_entry == 0 ||
      global.number_entry > kMaxEntries) {
    return error(Code::kCorrupt,
                 fmt::format("its zip directory claims {} entries", global.number_entry));
  }
  std::vector<ZipEntry> entries;
  std::unordered_set<std::string> names;
  int step = unzGoToFirstFile(zip.get());
  for (; step == UNZ_OK; step = unzGoToNextFile(zip.get())) {
    FATHOM_ASSIGN(ZipEntry entry, read_entry(zip.get(), source.size()));
    if (!names.insert(entry.name).second) {
      return error(Code::kCorrupt,
                   fmt::format("its zip directory has the entry {} twice", entry.name));
    }
    entries.push_back(std::move(entry));
  }
  if (step != UNZ_END_OF_LIST_OF_FILE || stream.failed || entries.size() != global.number_entry) {
    return error(Code::kCorrupt,
                 fmt::format("its zip directory is damaged: {} of {} entries can be read",
                             entries.size(), global.number_entry));
  }
  FATHOM_TRY(check_overlaps(entries));
  return entries;
}

}  // namespace fathom
