#include "optimizer/kernels/optimizer_kernel.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "optimizer/kernels/select_table.h"

namespace rz {

size_t StateCount(UpdateRule rule) {
  return OptimizerKernelsAt(SimdLevel::kPortable).update[static_cast<size_t>(rule)].state_count;
}

absl::StatusOr<OptimizerKernel> OptimizerKernel::Create(UpdateRule rule, DType gradient,
                                                        DType working) {
  return Create(rule, gradient, working, ActiveSimdLevel());
}

absl::StatusOr<OptimizerKernel> OptimizerKernel::Create(UpdateRule rule, DType gradient,
                                                        DType working, SimdLevel level) {
  const size_t from = static_cast<size_t>(gradient), to = static_cast<size_t>(working);
  UpdateKernel kernel = nullptr;
  if (from < kFloatingDTypes && to < kFloatingDTypes) {
    kernel = OptimizerKernelsAt(level).update[static_cast<size_t>(rule)].by_dtype[from][to];
  }
  if (kernel == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("no optimizer has a kernel for gradients of ", std::string(NameOf(gradient)),
                     " and working weights of ", std::string(NameOf(working)),
                     ": each must be float32, bfloat16 or float16"));
  }
  return OptimizerKernel(kernel);
}

}  // namespace rz
