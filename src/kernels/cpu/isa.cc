// Run-time choice of the instruction set.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/api/context.h"
#include "kernels/cpu/kernel_table.h"

namespace fathom::kernels {

namespace {

#if defined(__x86_64__)
bool has_f16c() {  // which clang 14's __builtin_cpu_supports does not know
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

}  // namespace

bool isa_supported(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
#if defined(__x86_64__)
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    case Isa::kAvx512:
      return isa_supported(Isa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq");
#endif
    default:
      return false;
  }
}

Isa best_isa() {
  if (isa_supported(Isa::kAvx512)) return Isa::kAvx512;
  return isa_supported(Isa::kAvx2) ? Isa::kAvx2 : Isa::kScalar;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    default:
      return "scalar";
  }
}

const KernelTable& table_for(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return avx2_table();
    case Isa::kAvx512:
      return avx512_table();
    default:
      return scalar_table();
  }
}

}  // namespace fathom::kernels
