// Reads the pickle inside a pytorch_model.bin with a machine that can build only tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/status.h"
#include "weights/report.h"

namespace fathom {

// One tensor of a state dict: a strided view of a storage.
struct PickledTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> stride;  // in elements, as long as shape
  int64_t storage_offset = 0;   // in elements of dtype
  std::string storage_key;      // the entry data/KEY of the zip file
  DType storage_dtype = DType::kF32;
  int64_t storage_elements = 0;  // of storage_dtype
};

// The tensors of a pickled state dict: one dict from names to tensors, as state_dict() gives it.
// Pickle is a programming language; here only its data part exists. Protocols 2 to 5. Globals other
// than collections.OrderedDict, torch's storages, dtypes and
// _rebuild_tensor_v2/_v3/_rebuild_parameter are refused by name; nothing is imported or called.
// Memory is bounded by a small multiple of the size. Offenders go to `report` with the tensor's
// name, `file` is the file's name for messages.
std::vector<PickledTensor> read_pickled_tensors(std::string_view pickle, const std::string& file,
                                                OffenderReport& report);

inline constexpr uint64_t kMaxPickleBytes = uint64_t{32} << 20;  // 100,000 tensors need about 30 MB
inline constexpr size_t kMaxPickledTensors = 131'072;

}  // namespace fathom
