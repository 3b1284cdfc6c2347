// The functions over rows (row_kernel.h) at the level of vector instructions that is used: softmax,
// layer normalisation, GELU, with bits that do not depend on the machine.
#ifndef RINGZERO_TOOLS_TRAIN_ROW_FUNCTIONS_H_
#define RINGZERO_TOOLS_TRAIN_ROW_FUNCTIONS_H_

#include "runtime/base/simd_level.h"
#include "tools/train/row_kernel.h"

namespace rz {

// Those of one level that this processor supports; for differential tests.
const RowFunctions& RowFunctionsOf(SimdLevel level);

inline const RowFunctions& ActiveRowFunctions() { return RowFunctionsOf(ActiveSimdLevel()); }

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_ROW_FUNCTIONS_H_
