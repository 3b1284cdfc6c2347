#include "tools/train/clock_alignment.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gmock/gmock.h"

namespace rz {
namespace {

TEST(ClockAlignmentTest, BoundsOfTheTightestBarriersMeetInTheMiddle) {
  // Rank 1's clock is 1000 ahead; both enter at 10 and leave at 14, or later.
  const std::vector<BarrierTimes> first = {{0, 90}, {10, 14}};
  const std::vector<BarrierTimes> own = {{1000, 1090}, {1010, 1014}};
  const ClockAlignment alignment = Align(own, first);
  EXPECT_EQ(alignment.ahead_ns, 1000);
  EXPECT_EQ(alignment.error_ns, 4);
  EXPECT_EQ(alignment.zero_ns, 14);
  EXPECT_EQ(alignment.ToCommon(1014), 0);
}

TEST(ClockAlignmentTest, OneClockIsTakenForOne) {
  const ClockAlignment alignment = Align({{{12, 15}}}, {{{10, 18}}});
  EXPECT_EQ(alignment.ahead_ns, 0);
  EXPECT_EQ(alignment.error_ns, 6);
}

// Whatever the barriers' delays: the truth is within the error.
TEST(ClockAlignmentTest, TheErrorHolds) {
  for (uint64_t seed = 1; seed <= 1'000; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](int64_t from, int64_t to) {
      return std::uniform_int_distribution<int64_t>(from, to)(random);
    };
    const int64_t ahead = draw(-1, 1) * draw(0, 5'000);
    std::vector<BarrierTimes> own, first;
    int64_t now = 0;
    for (int64_t k = draw(1, 8); k > 0; --k) {
      const int64_t own_entered = now + draw(0, 300);
      const int64_t first_entered = now + draw(0, 300);
      const int64_t all_in = std::max(own_entered, first_entered);
      own.push_back({own_entered + ahead, all_in + draw(0, 200) + ahead});
      first.push_back({first_entered, all_in + draw(0, 200)});
      now = all_in + 200;
    }
    const ClockAlignment alignment = Align(own, first);
    EXPECT_LE(std::abs(alignment.ahead_ns - ahead), alignment.error_ns) << seed;
    EXPECT_GE(alignment.error_ns, 0) << seed;
  }
}

}  // namespace
}  // namespace rz
