// What a model keeps per token or sequence, in bytes: stated once by the model, allocated by the
// engine.
//
// kvcache and scheduler count pages of these groups and never learn what is inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fathom {

// How the entries of a group grow with the sequence.
enum class KvGrowth {
  kPerToken,     // one entry a token: MLA latents, keys and values, indexer keys
  kPerStride,    // one entry every `stride` tokens: compressed entries (r = 4, 128)
  kWindow,       // one entry a token, only the last `window` tokens are read again
  kPerSequence,  // one entry a sequence, fixed size: recurrent or compressor state
};

struct KvGroup {
  std::string name;
  KvGrowth growth = KvGrowth::kPerToken;
  int stride = 1;              // kPerStride
  int window = 0;              // kWindow
  size_t bytes_per_entry = 0;  // all layers of the group together
};

// Groups in a fixed order; V1 to V3 have exactly one, kPerToken.
struct KvLayout {
  std::vector<KvGroup> groups;

  // Bytes that one more token costs in a long sequence (windows and states excluded).
  size_t bytes_per_token() const;
};

}  // namespace fathom
