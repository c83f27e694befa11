// Every kernel, compiled for avx512.
// GCC's own intrinsics build undefined vectors out of themselves (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "kernels/cpu/simd_avx512.h"
//
#include "kernels/cpu/table_impl.h"

namespace fathom::kernels {

const KernelTable& avx512_table() {
  return kTable;
}

}  // namespace fathom::kernels
