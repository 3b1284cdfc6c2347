// ReduceKernel, and the kernels of one level as a table; each level's copy of kernel_table.cc
// defines one. The contract of the kernels is in reduce_kernel.h. No Abseil here: what these
// sources include must not emit code (see simd_library.bzl).
#ifndef RINGZERO_COLLECTIVES_KERNELS_KERNEL_TABLE_H_
#define RINGZERO_COLLECTIVES_KERNELS_KERNEL_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "runtime/base/dtype.h"

namespace rz {

// The factor of kPremulSum. Floating dtypes read `floating`, rounded to their accumulator; integers
// read `integer`, modulo 2^bits (so that one int64_t holds the factors of uint64 too).
struct PremulFactor {
  double floating = 1;
  int64_t integer = 1;
};

struct ReduceKernel {
  void (*widen)(void* dst, const void* src, size_t count);
  void (*accumulate)(void* dst, const void* a, const void* b, size_t count);
  // divisor is 1 unless the op is kAvg.
  void (*finish)(void* dst, const void* src, size_t count, double divisor);
  void (*combine)(void* dst, const void* a, const void* b, size_t count);
  // Of kPremulSum; null for the other ops.
  void (*widen_scaled)(void* dst, const void* src, size_t count, PremulFactor factor);
  void (*accumulate_scaled)(void* dst, const void* a, const void* b, size_t count,
                            PremulFactor factor);
  // Of kAvg; null for the other ops: accumulate and finish in one.
  void (*combine_mean)(void* dst, const void* a, const void* b, size_t count, double divisor);
};

// The kernels of one dtype by op; null pointers where the pair has no meaning (kAvg of integers).
struct KernelRow {
  ReduceKernel of[std::size(kAllReduceOps)];
};

// By dtype.
using KernelTable = KernelRow[std::size(kAllDTypes)];

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
