// The message sizes of a sweep: from -b to -e in steps of -f or -i.
#ifndef RINGZERO_TOOLS_BENCH_SIZE_SWEEP_H_
#define RINGZERO_TOOLS_BENCH_SIZE_SWEEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rz {

struct SizeSweep {
  int64_t min_bytes = int64_t{32} << 20;
  int64_t max_bytes = int64_t{32} << 20;
  int64_t step_bytes = int64_t{1} << 20;  // where step_factor is 1
  double step_factor = 1;
};

// Ascending, from min_bytes to at most max_bytes. After 0, which no factor leaves, comes 1; a
// factor's sizes are whole bytes, each larger than the one before.
//   InvalidArgument  negative, max below min, a factor below 1, no step, or more than a million
//                    sizes
absl::StatusOr<std::vector<int64_t>> SizesOf(const SizeSweep& sweep);

// "8,1K,32M": sizes in the given order.
//   InvalidArgument  empty, or one is no size
absl::StatusOr<std::vector<int64_t>> ParseSizes(const std::string& text);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_SIZE_SWEEP_H_
