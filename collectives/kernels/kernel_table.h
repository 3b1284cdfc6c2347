// The kernels of one level as a table; each level's copy of kernel_table.cc defines one.
#ifndef RINGZERO_COLLECTIVES_KERNELS_KERNEL_TABLE_H_
#define RINGZERO_COLLECTIVES_KERNELS_KERNEL_TABLE_H_

#include <iterator>

#include "collectives/kernels/reduce_kernel.h"
#include "runtime/base/dtype.h"

namespace rz {

// By dtype, then op. Null pointers where the pair has no meaning (kAvg of integers).
using KernelTable = ReduceKernel[std::size(kAllDTypes)][std::size(kAllReduceOps)];

namespace simd_portable {
extern const KernelTable kKernelTable;
}
namespace simd_avx2 {
extern const KernelTable kKernelTable;
}
namespace simd_avx512 {
extern const KernelTable kKernelTable;
}

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_KERNELS_KERNEL_TABLE_H_
