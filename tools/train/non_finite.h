// Where infinities and NaNs come from, in words. Pure.
#ifndef RINGZERO_TOOLS_TRAIN_NON_FINITE_H_
#define RINGZERO_TOOLS_TRAIN_NON_FINITE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tools/train/mlp_shape.h"

namespace rz {

// Infinity where a value is not finite; 0 of none.
float LargestMagnitude(absl::Span<const float> values);

// Who made all ranks skip a step. `first_bad[r]` is the index, in `parameters`, of the first whose
// gradient on rank r is not finite; parameters.size() where there is none.
std::string DescribeSkip(absl::Span<const int64_t> first_bad,
                         const std::vector<MlpParameter>& parameters);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_NON_FINITE_H_
