// Every kernel, compiled for scalar.
#include "kernels/cpu/simd_scalar.h"
//
#include "kernels/cpu/table_impl.h"

namespace fathom::kernels {

const KernelTable& scalar_table() {
  return kTable;
}

}  // namespace fathom::kernels
