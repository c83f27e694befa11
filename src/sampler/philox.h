// Philox4x32-10, the counter-based generator of Salmon et al. (SC 2011): a pure function, so a draw
// depends on its key and counter and on nothing that happened before.
#pragma once

#include <array>
#include <cstdint>

namespace fathom {

inline std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;  // golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

// The draw-th uniform number in [0, 1) of a position: 53 bits.
inline double uniform_draw(uint64_t seed, int64_t position, uint32_t draw) {
  const std::array<uint32_t, 4> bits =
      philox4x32_10({static_cast<uint32_t>(position),
                     static_cast<uint32_t>(static_cast<uint64_t>(position) >> 32), draw, 0},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t word = (uint64_t{bits[1]} << 32) | bits[0];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

}  // namespace fathom
