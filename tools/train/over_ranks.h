// A number of each rank, summed up for people: how much, how even, and whose is the most.
#ifndef RINGZERO_TOOLS_TRAIN_OVER_RANKS_H_
#define RINGZERO_TOOLS_TRAIN_OVER_RANKS_H_

#include <algorithm>
#include <cstddef>

#include "absl/types/span.h"

namespace rz {

template <typename T>
struct OverRanks {
  double mean = 0;
  T min = 0;
  T max = 0;
  int max_rank = 0;  // the first that has it
};

// `values` has one of each rank, at least one.
template <typename T>
OverRanks<T> SummarizeRanks(absl::Span<const T> values) {
  OverRanks<T> over = {.min = values[0], .max = values[0]};
  for (size_t rank = 0; rank < values.size(); ++rank) {
    over.mean += static_cast<double>(values[rank]) / static_cast<double>(values.size());
    over.min = std::min(over.min, values[rank]);
    if (values[rank] <= over.max) continue;
    over.max = values[rank];
    over.max_rank = static_cast<int>(rank);
  }
  return over;
}

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_OVER_RANKS_H_
