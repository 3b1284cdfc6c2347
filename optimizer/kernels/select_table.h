// The table of a level, for optimizer_kernel.cc and gradient_stats.cc.
#ifndef RINGZERO_OPTIMIZER_KERNELS_SELECT_TABLE_H_
#define RINGZERO_OPTIMIZER_KERNELS_SELECT_TABLE_H_

#include "optimizer/kernels/optimizer_kernel_table.h"
#include "runtime/base/simd_level.h"

namespace rz {

inline const OptimizerKernelTable& OptimizerKernelsAt(SimdLevel level) {
  switch (level) {
    case SimdLevel::kPortable:
      return simd_portable::kOptimizerKernelTable;
    case SimdLevel::kAvx2:
      return simd_avx2::kOptimizerKernelTable;
    case SimdLevel::kAvx512:
      return simd_avx512::kOptimizerKernelTable;
  }
  return simd_portable::kOptimizerKernelTable;
}

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_KERNELS_SELECT_TABLE_H_
