#include "tools/bench/results.h"

#include <numeric>

namespace rz {
namespace {

constexpr int64_t kSmall = int64_t{32} << 10;
constexpr int64_t kMiddle = int64_t{1} << 20;

std::optional<double> Mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

void SetBandwidths(BenchOperation operation, int world, int64_t size_bytes, HalfResult& half) {
  half.algbw = half.time_us > 0 ? static_cast<double>(size_bytes) / half.time_us * 1e-3 : 0;
  half.busbw = half.algbw * BusFactor(operation, world);
}

ResultSummary SummarizeRows(const std::vector<ResultRow>& rows) {
  ResultSummary summary;
  std::vector<double> all, bands[3];
  for (const ResultRow& row : rows) {
    for (const std::optional<HalfResult>& half : {row.out_of_place, row.in_place}) {
      if (!half.has_value()) continue;
      if (half->wrong > 0) summary.wrong += half->wrong;
      const int band = row.size_bytes <= kSmall ? 0 : row.size_bytes <= kMiddle ? 1 : 2;
      all.push_back(half->busbw);
      bands[band].push_back(half->busbw);
    }
  }
  summary.average_busbw = Mean(all).value_or(0);
  summary.small = Mean(bands[0]);
  summary.middle = Mean(bands[1]);
  summary.large = Mean(bands[2]);
  return summary;
}

}  // namespace rz
