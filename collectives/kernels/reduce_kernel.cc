#include "collectives/kernels/reduce_kernel.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/kernels/kernel_table.h"

namespace rz {
namespace {

const KernelTable& TableOf(SimdLevel level) {
  switch (level) {
    case SimdLevel::kPortable:
      return simd_portable::kKernelTable;
    case SimdLevel::kAvx2:
      return simd_avx2::kKernelTable;
    case SimdLevel::kAvx512:
      return simd_avx512::kKernelTable;
  }
  return simd_portable::kKernelTable;
}

}  // namespace

absl::StatusOr<const ReduceKernel*> GetReduceKernel(DType dtype, ReduceOp op) {
  return GetReduceKernel(dtype, op, ActiveSimdLevel());
}

absl::StatusOr<const ReduceKernel*> GetReduceKernel(DType dtype, ReduceOp op, SimdLevel level) {
  if (op == ReduceOp::kFunction) {
    return absl::InvalidArgumentError("a function of the caller's has no kernel");
  }
  const KernelRow& row = TableOf(level)[static_cast<size_t>(dtype)];
  const ReduceKernel& kernel = row.of[static_cast<size_t>(op)];
  if (kernel.widen == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot reduce ", std::string(NameOf(dtype)), " with ", std::string(NameOf(op)),
        ": the mean of integers has no exact meaning; use sum and divide, or a floating dtype"));
  }
  return &kernel;
}

}  // namespace rz
