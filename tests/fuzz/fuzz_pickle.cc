// Feeds arbitrary bytes to the pickle machine, and, as whole files, to the reader of torch's zip
// format.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/log.h"
#include "weights/byte_source.h"
#include "weights/pickle.h"
#include "weights/shard.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  fathom::OffenderReport report;
  if (size >= 2 && bytes[0] == 'P' && bytes[1] == 'K') {
    const fathom::ShardHeader header =
        fathom::read_torch_bin_header(fathom::MemorySource(bytes), "pytorch_model.bin", report);
    for (const fathom::TensorInfo& tensor : header.tensors) {
      if (tensor.offset > size || tensor.bytes > size - tensor.offset) std::abort();
    }
  } else {
    fathom::read_pickled_tensors(bytes, "pytorch_model.bin", report);
  }
  if (report.to_status("refused").message().size() > 64 * 1024) std::abort();
  return 0;
}
