// Feeds arbitrary bytes to the safetensors header reader and to the shard index parser.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "weights/byte_source.h"
#include "weights/shard.h"
#include "weights/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  fathom::OffenderReport report;
  const fathom::ShardHeader header =
      fathom::read_safetensors_header(fathom::MemorySource(bytes), "model.safetensors", report);
  if (report.empty()) {
    // What is accepted must lie inside the file, in order and without gaps.
    uint64_t reached = header.tensors.empty() ? size : header.tensors.front().offset;
    for (const fathom::TensorInfo& tensor : header.tensors) {
      if (tensor.offset != reached) std::abort();
      reached += tensor.bytes;
    }
    if (reached != size) std::abort();
  } else if (report.to_status("refused").message().size() > 64 * 1024) {
    std::abort();
  }
  fathom::OffenderReport index_report;
  fathom::parse_shard_index(bytes, "model.safetensors.index.json", index_report);
  return 0;
}
