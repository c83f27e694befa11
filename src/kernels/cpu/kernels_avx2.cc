// Every kernel, compiled for avx2.
#include "kernels/cpu/simd_avx2.h"
//
#include "kernels/cpu/table_impl.h"

namespace fathom::kernels {

const KernelTable& avx2_table() {
  return kTable;
}

}  // namespace fathom::kernels
