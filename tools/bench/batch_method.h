// How many calls are timed: the same arithmetic for ringzero and for the peers' programs, which are
// built apart from it (peers/build). Plain C++, nothing included but the standard library.
#ifndef RINGZERO_TOOLS_BENCH_BATCH_METHOD_H_
#define RINGZERO_TOOLS_BENCH_BATCH_METHOD_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace rz {

// Calls timed for an estimate, after the warm-up.
inline constexpr int64_t kEstimateCalls = 3;
// A batch lasts so long at least, unless it has so many calls.
inline constexpr double kBatchUs = 200;
inline constexpr int64_t kMaxCallsPerBatch = 1024;

// Calls (or batches) that last about `budget_us`, each `estimate_us` long: 5 at least, 10,000 at
// most.
inline int64_t IterationsFor(double budget_us, double estimate_us) {
  const double wanted = budget_us / std::max(estimate_us, 0.01);
  return static_cast<int64_t>(std::clamp(wanted, 5.0, 10'000.0));
}

inline int64_t CallsPerBatch(double estimate_us) {
  const double wanted = std::ceil(kBatchUs / std::max(estimate_us, 0.01));
  return static_cast<int64_t>(std::clamp(wanted, 1.0, static_cast<double>(kMaxCallsPerBatch)));
}

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_BATCH_METHOD_H_
