#include "tools/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rz {

double Percentile(absl::Span<const double> sorted, double percent) {
  if (sorted.empty()) return 0;
  const auto position =
      static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(position, 1, sorted.size()) - 1];
}

SampleStatistics Summarize(std::vector<double> samples) {
  SampleStatistics statistics;
  if (samples.empty()) return statistics;
  std::sort(samples.begin(), samples.end());
  statistics.min = samples.front();
  statistics.p50 = Percentile(samples, 50);
  statistics.p90 = Percentile(samples, 90);
  statistics.p99 = Percentile(samples, 99);
  statistics.max = samples.back();
  const auto count = static_cast<double>(samples.size());
  statistics.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (double sample : samples) squares += (sample - statistics.mean) * (sample - statistics.mean);
  if (statistics.mean > 0) {
    statistics.variation_percent = 100 * std::sqrt(squares / count) / statistics.mean;
  }
  return statistics;
}

double CombineRanks(absl::Span<const double> values, RankAverage average) {
  switch (average) {
    case RankAverage::kRankZero:
      return values[0];
    case RankAverage::kMean:
      return std::accumulate(values.begin(), values.end(), 0.0) /
             static_cast<double>(values.size());
    case RankAverage::kMin:
      return *std::min_element(values.begin(), values.end());
    case RankAverage::kMax:
      return *std::max_element(values.begin(), values.end());
  }
  return 0;
}

}  // namespace rz
