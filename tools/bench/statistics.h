// What samples of a measurement say.
#ifndef RINGZERO_TOOLS_BENCH_STATISTICS_H_
#define RINGZERO_TOOLS_BENCH_STATISTICS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace rz {

// Of times, in the samples' unit. All 0 where there are no samples.
struct SampleStatistics {
  double min = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
  double mean = 0;
  double variation_percent = 0;  // standard deviation (of the samples) / mean
};

// The nearest-rank percentile, 0 < percent <= 100, of samples in ascending order: a value that was
// measured. 0 where there are none.
double Percentile(absl::Span<const double> sorted, double percent);

SampleStatistics Summarize(std::vector<double> samples);

// How -a makes one figure of the ranks' (values[rank], at least one).
enum class RankAverage : uint8_t { kRankZero = 0, kMean = 1, kMin = 2, kMax = 3 };
double CombineRanks(absl::Span<const double> values, RankAverage average);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_STATISTICS_H_
