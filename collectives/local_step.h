// Carries out one local step of a schedule on real memory, with the reduction kernels.
#ifndef RINGZERO_COLLECTIVES_LOCAL_STEP_H_
#define RINGZERO_COLLECTIVES_LOCAL_STEP_H_

#include <cstddef>

#include "collectives/kernels/reduce_kernel.h"
#include "collectives/schedule/schedule.h"
#include "runtime/base/dtype.h"

namespace rz {

// What elements are and how they are added.
struct Arithmetic {
  DType dtype = DType::kFloat32;
  const ReduceKernel* kernel = nullptr;  // null for collectives that add nothing
  double divisor = 1;                    // the world size for averages

  size_t SizeOfFormat(Format format) const {
    return SizeOf(format == Format::kWire ? dtype : AccumulatorOf(dtype));
  }
};

struct Operand {
  std::byte* data = nullptr;
  Format format = Format::kWire;
};

// `count` elements. dst may be the same memory as a or b where their formats agree.
void RunLocalStep(LocalKind kind, Operand dst, Operand a, Operand b, size_t count,
                  const Arithmetic& arithmetic);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_LOCAL_STEP_H_
