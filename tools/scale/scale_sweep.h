// Simulates every call of a ScaleConfig.
#ifndef RINGZERO_TOOLS_SCALE_SCALE_SWEEP_H_
#define RINGZERO_TOOLS_SCALE_SCALE_SWEEP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/algorithm.h"
#include "collectives/collective.h"
#include "collectives/simulation/simulated_call.h"
#include "tools/scale/scale_config.h"

namespace rz {

struct ScaleRow {
  Collective collective = Collective::kReduceScatter;
  Algorithm algorithm = Algorithm::kRing;
  int ranks = 0;
  int64_t size_bytes = 0;  // of the larger buffer of a rank
  SimulatedTimes simulated;
  std::optional<SimTime> formula;

  double time_us() const { return static_cast<double>(simulated.time) * 1e-6; }
  std::optional<double> formula_us() const;
  // By which the simulated time is above the formula's, in percent; none: there is no formula, or
  // it says 0.
  std::optional<double> difference_percent() const;
};

// A call of the config with these.
SimulatedCall CallOf(const ScaleConfig& config, Collective collective, Algorithm algorithm,
                     int ranks, int64_t size_bytes);

// Who is told what meanwhile.
struct ScaleListener {
  std::function<void(const ScaleRow& row)> on_row;
  // A call is left out; why.
  std::function<void(const std::string& line)> on_skipped;
  // "all_reduce of 1 GiB by ring on 4096 ranks", messages that have arrived, and of how many.
  std::function<void(const std::string& call, int64_t done, int64_t all)> on_progress;
};

// At most: messages of a call, and ranks where each one's schedule has a step for every two ranks
// (600 MB then).
inline constexpr int64_t kMaxSimulatedMessages = 1'000'000'000;
inline constexpr int kMaxRanksOfCubicSchedules = 256;

// With more, one column stands for all of a hierarchy, where they are alike.
inline constexpr int64_t kMaxMessagesOfAllColumns = 50'000'000;

// By collective, ranks, algorithm and size. Calls that an algorithm cannot carry, or beyond these
// limits, are skipped.
//   Internal  schedules that do not fit each other
absl::StatusOr<std::vector<ScaleRow>> RunSweep(const ScaleConfig& config,
                                               const ScaleListener& listener);

}  // namespace rz

#endif  // RINGZERO_TOOLS_SCALE_SCALE_SWEEP_H_
