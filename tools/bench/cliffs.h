// Sizes that cost more than their neighbours promise: what a wrong threshold between two ways of
// carrying a call looks like.
#ifndef RINGZERO_TOOLS_BENCH_CLIFFS_H_
#define RINGZERO_TOOLS_BENCH_CLIFFS_H_

#include <string>
#include <vector>

#include "tools/bench/results.h"

namespace rz {

// A size whose time is `ratio` times what a straight line between its neighbours' times says, both
// axes logarithmic.
struct Cliff {
  const ResultRow* row = nullptr;
  bool in_place = false;
  double time_us = 0;
  double expected_us = 0;
  double ratio = 0;
};

// Those above `factor`, worst first; of rows that follow each other and differ in size alone. The
// median call of each size counts, or its mean where calls were not timed one by one.
std::vector<Cliff> FindCliffs(const std::vector<ResultRow>& rows, double factor);

// Both halves of `row` become those of `again`, measured again, where that is faster.
void TakeFaster(ResultRow& row, const ResultRow& again);

// "# Cliffs (above 1.5 times the trend of their neighbours, measured again): none", or a line each
// below it.
std::string CliffsText(const std::vector<Cliff>& cliffs, double factor);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_CLIFFS_H_
