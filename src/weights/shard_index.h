// The index of a sharded checkpoint, and which files of a folder make up its checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"
#include "weights/report.h"

namespace fathom {

// model.safetensors.index.json or pytorch_model.bin.index.json.
struct ShardIndex {
  std::vector<std::pair<std::string, std::string>>
      weight_map;                      // tensor -> file, in the file's order
  std::optional<uint64_t> total_size;  // metadata.total_size
};

// Parses an index. Defects go to `report`: not JSON, a tensor named twice, a file name that is not
// a plain name in the same folder. Entries with defects are left out. `file` is the index's name.
ShardIndex parse_shard_index(std::string_view text, const std::string& file,
                             OffenderReport& report);

// The files of one checkpoint.
struct FileSet {
  bool safetensors = false;
  std::vector<std::string> files;  // names in the folder, each once, sorted
  std::optional<ShardIndex> index;
  std::string index_file;
};

// Chooses the files as Checkpoint::open describes. Fails if the folder has no weights, with what it
// has. Defects of an index go to `report`.
Result<FileSet> find_weight_files(const std::filesystem::path& folder, OffenderReport& report);

}  // namespace fathom
