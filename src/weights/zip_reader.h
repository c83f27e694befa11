// The directory of a zip file whose entries are stored, as torch.save writes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "weights/byte_source.h"

namespace fathom {

// One stored entry: `bytes` bytes at `offset` of the file.
struct ZipEntry {
  std::string name;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t crc = 0;
};

// All entries, in the directory's order, each inside the file and none overlapping another.
// Refused: compressed and encrypted entries (so there are no bombs), two of one name, damaged
// archives. An error names the entry but not the file.
Result<std::vector<ZipEntry>> read_zip_directory(const ByteSource& source);

}  // namespace fathom
