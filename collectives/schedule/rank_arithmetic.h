// Ranks as positions on a circle.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_RANK_ARITHMETIC_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_RANK_ARITHMETIC_H_

#include <cstdint>

namespace rz {

// The rank `distance` after `rank`, before it where negative. |distance| <= world.
constexpr int32_t RankAt(int32_t rank, int32_t distance, int32_t world) {
  return (rank + distance + world) % world;
}

// The least k with 2^k >= world.
constexpr int32_t CeilLog2(int32_t world) {
  int32_t k = 0;
  while ((int64_t{1} << k) < world) ++k;
  return k;
}

// The largest k with 2^k <= world: the most one bits of any number below `world`, which is how deep
// a binomial tree is where a rank sends to all its children at once.
constexpr int32_t FloorLog2(int32_t world) {
  int32_t k = 0;
  while ((int64_t{2} << k) <= world) ++k;
  return k;
}

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_RANK_ARITHMETIC_H_
