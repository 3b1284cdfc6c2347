// Where infinities and NaNs come from. Pure.
#ifndef RINGZERO_TOOLS_TRAIN_NON_FINITE_H_
#define RINGZERO_TOOLS_TRAIN_NON_FINITE_H_

#include "absl/types/span.h"

namespace rz {

// Infinity where a value is not finite; 0 of none.
float LargestMagnitude(absl::Span<const float> values);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_NON_FINITE_H_
