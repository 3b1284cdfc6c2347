// Carries out one local step of a schedule on real memory, with the reduction kernels.
#ifndef RINGZERO_COLLECTIVES_LOCAL_STEP_H_
#define RINGZERO_COLLECTIVES_LOCAL_STEP_H_

#include <cstddef>

#include "collectives/kernels/reduce_kernel.h"
#include "collectives/reduce_function.h"
#include "collectives/schedule/schedule.h"
#include "runtime/base/dtype.h"

namespace rz {

// What elements are and how they are added.
struct Arithmetic {
  DType dtype = DType::kFloat32;
  const ReduceKernel* kernel = nullptr;  // null for collectives that add nothing
  double divisor = 1;                    // the world size for averages
  PremulFactor premul;                   // read by kernels of kPremulSum alone
  ReduceFunction* function = nullptr;    // of kFunction, which has no kernel

  bool scales() const { return kernel != nullptr && kernel->widen_scaled != nullptr; }
  // Two inputs come to an output by kernel->combine alone.
  bool combines_at_once() const { return kernel != nullptr && !scales() && divisor == 1; }
  // Partial results of a function are of the dtype itself.
  size_t SizeOfFormat(Format format) const {
    const bool wide = format == Format::kAccumulator && function == nullptr;
    return SizeOf(wide ? AccumulatorOf(dtype) : dtype);
  }
};

struct Operand {
  std::byte* data = nullptr;
  Format format = Format::kWire;
  // Of a reduction: one rank's input as it was given, in wire format, which premul_sum multiplies
  // in this step. What kWiden and kFinish read always is one.
  bool is_input = false;
};

// `count` elements. dst may be the same memory as a or b where their formats agree. Of a reduction
// either operand may be wire where the other is; an accumulator is `a`. False: the arithmetic's
// function failed, and dst holds nothing of use.
bool RunLocalStep(LocalKind kind, Operand dst, Operand a, Operand b, size_t count,
                  const Arithmetic& arithmetic);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_LOCAL_STEP_H_
