#include "optimizer/kernels/adamw.h"

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "optimizer/kernels/select_table.h"

namespace rz {
namespace {

AdamWConstants ConstantsOf(const AdamWStep& step) {
  return {
      .grad_scale = static_cast<float>(step.grad_scale),
      .beta1 = static_cast<float>(step.beta1),
      .one_minus_beta1 = static_cast<float>(1.0 - step.beta1),
      .beta2 = static_cast<float>(step.beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - step.beta2),
      .decay = static_cast<float>(1.0 - step.lr * step.weight_decay),
      .step_size = static_cast<float>(step.lr / step.bias_correction1),
      .inverse_root_2 = static_cast<float>(1.0 / std::sqrt(step.bias_correction2)),
      .eps = static_cast<float>(step.eps),
  };
}

}  // namespace

absl::StatusOr<AdamW> AdamW::Create(DType gradient, DType working) {
  return Create(gradient, working, ActiveSimdLevel());
}

absl::StatusOr<AdamW> AdamW::Create(DType gradient, DType working, SimdLevel level) {
  AdamWKernel kernel = nullptr;
  if (IsFloating(gradient) && IsFloating(working)) {
    kernel = OptimizerKernelsAt(level)
                 .adamw[static_cast<size_t>(gradient)][static_cast<size_t>(working)];
  }
  if (kernel == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("AdamW has no kernel for gradients of ", std::string(NameOf(gradient)),
                     " and working weights of ", std::string(NameOf(working)),
                     ": each must be float32, bfloat16 or float16"));
  }
  return AdamW(kernel);
}

void AdamW::Update(const AdamWStep& step, const void* gradient, float* master, float* m, float* v,
                   void* working, size_t count) const {
  kernel_(ConstantsOf(step), gradient, master, m, v, working, count);
}

}  // namespace rz
