// What the reader of one file of a checkpoint gives back, whatever the format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weights/byte_source.h"
#include "weights/checkpoint.h"
#include "weights/report.h"

namespace fathom {

// The tensors that one file holds, by offset. Tensors with defects are in the report, not here.
struct ShardHeader {
  std::vector<TensorInfo> tensors;
  uint64_t hash = 0;  // of the header's bytes and the file's size
};

// Reads and checks the header of a .safetensors file; `file` is its name for messages.
// Refused: a header that is not JSON or names a tensor twice, offsets that overlap, leave holes,
// run past the end or disagree with shape and type, unknown types, trailing bytes.
ShardHeader read_safetensors_header(const ByteSource& source, const std::string& file,
                                    OffenderReport& report);

// Reads and checks the directory and the pickle of a zip-format pytorch_model.bin. Nothing in the
// pickle is executed: it is interpreted by a machine that knows dicts and tensors only.
// Refused: the format before torch 1.6, compressed or overlapping entries, big-endian data, any
// global other than those of plain tensors, views that are not contiguous, values that are not
// tensors.
ShardHeader read_torch_bin_header(const ByteSource& source, const std::string& file,
                                  OffenderReport& report);

// Number of elements of a shape, or nothing if a dimension is negative or the product is beyond
// 2^62.
std::optional<uint64_t> checked_element_count(const std::vector<int64_t>& shape);

inline constexpr size_t kMaxRank = 64;  // dimensions of a tensor, as in torch
inline constexpr size_t kMaxTensorsPerFile = size_t{1} << 20;

}  // namespace fathom
