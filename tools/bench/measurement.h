// The measuring loop.
//
// A sample is some calls in a row between two looks at the clock. Which samples there are:
//   plain           one sample of all iterations, as nccl-tests: nothing between the calls
//   each            a sample for every call, nothing between them: for percentiles
//   fresh           a sample for every call; before each, outside the timed part, every rank
//                   rewrites its input and all ranks meet
//   batches         samples of so many calls that each lasts 200 us or more (batch_method.h);
//                   before each, all ranks meet. The time is the median over the samples of the
//                   slowest rank's. The method in which other libraries are compared
#ifndef RINGZERO_TOOLS_BENCH_MEASUREMENT_H_
#define RINGZERO_TOOLS_BENCH_MEASUREMENT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/bench/rank_exchange.h"
#include "tools/bench/statistics.h"
#include "tools/bench/subject.h"

namespace rz {

enum class Sampling : uint8_t { kPlain, kEach, kFresh, kBatches };

struct MeasurementPlan {
  Sampling sampling = Sampling::kPlain;
  int64_t warmup = 5;
  int64_t iterations = 0;  // 0: as many as the budget allows, at least 5, at most 10,000
  absl::Duration budget = absl::Milliseconds(100);
  RankAverage average = RankAverage::kMean;
  int64_t skip_samples = 0;  // the first ones that the statistics leave out
  bool cpu_time = false;
};

struct Timing {
  int64_t iterations = 0;       // timed
  double time_us = 0;           // an iteration, over the ranks as the plan's average says
  double cpu_us = 0;            // likewise; 0 unless asked for
  SampleStatistics samples_us;  // an iteration; of each sample the slowest rank's
};

// Runs `call` on all ranks as `plan` says. `rewrite_input` is called where the sampling is kFresh.
// Nothing is allocated here between the first timed call and the last.
absl::StatusOr<Timing> Measure(Subject& subject, RankExchange& exchange, const MeasuredCall& call,
                               const MeasurementPlan& plan,
                               const std::function<void()>& rewrite_input);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_MEASUREMENT_H_
