// Every algorithm with what it claims, for tests that go through all of them.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_TESTING_ALGORITHMS_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_TESTING_ALGORITHMS_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "collectives/schedule/claim.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/schedule_cost.h"

namespace rz {

struct TestedAlgorithm {
  std::string name;
  Claim claim;  // but for root, place, sends and most_roundings
  std::function<Schedule(int32_t rank, int32_t world, int32_t root)> build;
  std::function<ScheduleCost(int32_t world)> cost;
  bool has_root = false;
  bool is_large = false;  // its schedules grow with the square of the world
};

std::vector<TestedAlgorithm> TestedAlgorithms();

// The schedules of all ranks.
std::vector<Schedule> SchedulesOf(const TestedAlgorithm& algorithm, int32_t world, int32_t root);

// What `algorithm` claims in a world of this size.
Claim ClaimOf(const TestedAlgorithm& algorithm, int32_t world, int32_t root);

inline std::ostream& operator<<(std::ostream& os, const TestedAlgorithm& algorithm) {
  return os << algorithm.name;
}

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_TESTING_ALGORITHMS_H_
