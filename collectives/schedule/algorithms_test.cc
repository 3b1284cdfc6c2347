// Every algorithm is proved, and its closed-form cost compared with its schedules, in every world.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "collectives/schedule/schedule_cost.h"
#include "collectives/schedule/testing_algorithms.h"
#include "collectives/schedule/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;

constexpr int32_t kLargestWorld = 64;

std::vector<int32_t> WorldsFor(const TestedAlgorithm& algorithm) {
  std::vector<int32_t> worlds;
  const int32_t every = algorithm.is_large ? 18 : kLargestWorld;
  for (int32_t world = 1; world <= every; ++world) worlds.push_back(world);
  for (int32_t world : {31, 33, 48, 64, 65, 100}) {
    if (world > every && !(algorithm.is_large && world > kLargestWorld)) worlds.push_back(world);
  }
  return worlds;
}

// All of small worlds, some of large ones.
std::vector<int32_t> RootsFor(const TestedAlgorithm& algorithm, int32_t world,
                              std::mt19937& random) {
  if (!algorithm.has_root) return {0};
  std::vector<int32_t> roots;
  if (world <= 9) {
    for (int32_t root = 0; root < world; ++root) roots.push_back(root);
    return roots;
  }
  return {0, static_cast<int32_t>(random() % world), world - 1};
}

class AlgorithmsTest : public ::testing::TestWithParam<TestedAlgorithm> {};

TEST_P(AlgorithmsTest, IsWhatItClaimsInEveryWorld) {
  std::mt19937 random(20240607);
  for (int32_t world : WorldsFor(GetParam())) {
    for (int32_t root : RootsFor(GetParam(), world, random)) {
      const std::vector<Schedule> schedules = SchedulesOf(GetParam(), world, root);
      Claim claim = ClaimOf(GetParam(), world, root);
      for (bool in_place : {false, true}) {
        claim.in_place = in_place;
        // Eager sends give the same, since messages match in order; small worlds show it.
        for (Sends sends : {Sends::kRendezvous, Sends::kEager}) {
          claim.sends = sends;
          if (sends == Sends::kEager && world > 20) continue;
          ASSERT_THAT(VerifySchedules(schedules, claim), IsOk()) << "root " << root;
        }
      }
    }
  }
}

TEST_P(AlgorithmsTest, CostsWhatItsFormulaSays) {
  std::mt19937 random(7);
  for (int32_t world : WorldsFor(GetParam())) {
    for (int32_t root : RootsFor(GetParam(), world, random)) {
      ASSERT_EQ(CostOf(SchedulesOf(GetParam(), world, root)), GetParam().cost(world))
          << "world " << world << ", root " << root;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AlgorithmsTest, ::testing::ValuesIn(TestedAlgorithms()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rz
