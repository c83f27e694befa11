// A callback for long work: bytes or units done, of how many.
#pragma once

#include <cstdint>
#include <functional>

namespace fathom {

using Progress = std::function<void(uint64_t done, uint64_t total)>;

}  // namespace fathom
