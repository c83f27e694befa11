// Lays the tensors of a model out in one block of memory and writes stored rows into their place.
//
// Private to src/model: shared by the checkpoint loader and the dummy weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/dtype.h"
#include "core/file.h"
#include "core/status.h"
#include "core/thread_pool.h"
#include "model/bind.h"
#include "model/weights.h"

namespace fathom {

// A slot with the type it is stored in.
struct PlacedTensor {
  const TensorSlot* slot = nullptr;
  DType dtype = DType::kBF16;
  std::vector<float> scales;  // F8_E4M3: of its blocks, [ceil(rows / 128), ceil(cols / 128)]
};

// The slots that are computed with, in the types that the config announces; without scales.
std::vector<PlacedTensor> announced_tensors(const ModelConfig& config,
                                            const std::vector<TensorSlot>& slots);
int64_t scale_count(const TensorSlot& slot);  // blocks of an FP8 matrix

// Bytes that place_tensors would allocate. Sets formats in `weights`, no addresses.
Result<uint64_t> placed_bytes(const ModelConfig& config, const std::vector<PlacedTensor>& tensors,
                              ModelWeights& weights);

// Keeps the first failure of several threads.
class FirstError {
 public:
  void set(Status status);
  Status get() const;

 private:
  mutable std::mutex mutex_;
  Status status_;
};

// Gives every tensor its address: allocates `arena` (or refuses for lack of memory) and sets data,
// format and scales of the targets. `tensors` may leave out slots with use kUnused only. With tied
// embeddings, lm_head gets its place too (filled by pack_tied_head).
Status place_tensors(const ModelConfig& config, const std::vector<PlacedTensor>& tensors,
                     ModelWeights& weights, HugeBuffer& arena);

// Writes rows [first_row, first_row + count) of a placed tensor, given as stored. Vectors are one
// row. May run on several threads for different rows.
Status write_rows(const PlacedTensor& tensor, int64_t first_row, int64_t count,
                  const std::byte* bytes);

// Rows and bytes of one row as write_rows takes them.
int64_t stored_rows(const TensorSlot& slot);
size_t stored_row_bytes(const TensorSlot& slot, DType dtype);

// Packs the embedding as lm_head of a model with tied embeddings.
Status pack_tied_head(ModelWeights& weights, ThreadPool& pool);

}  // namespace fathom
