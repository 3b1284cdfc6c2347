// Sums in float32 of gradients of any working dtype.
#ifndef RINGZERO_OPTIMIZER_FLOAT_SUM_H_
#define RINGZERO_OPTIMIZER_FLOAT_SUM_H_

#include <cstddef>

#include "runtime/base/dtype.h"

namespace rz {

// to[i] += values[i], or with `first` to[i] = values[i], for i < count. `from` is float32, bfloat16
// or float16; any alignment, no overlap.
void AddAsFloat(DType from, float* to, const void* values, size_t count, bool first);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_FLOAT_SUM_H_
