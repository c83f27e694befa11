// Exact conversion of stored elements to float32.
#pragma once

#include <cstddef>

#include "core/dtype.h"

namespace fathom {

// Writes n elements of type `dtype` at `src` (any alignment) to dst as float32. F32 and all
// narrower floating types are exact; F64, I32 and I64 round to nearest even. NaN stays NaN.
void to_float(DType dtype, const void* src, float* dst, size_t n);

}  // namespace fathom
