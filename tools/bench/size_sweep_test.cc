#include "tools/bench/size_sweep.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> Sizes(int64_t min, int64_t max, int64_t step, double factor) {
  const auto sizes =
      SizesOf({.min_bytes = min, .max_bytes = max, .step_bytes = step, .step_factor = factor});
  EXPECT_OK(sizes.status());
  return sizes.ok() ? *sizes : std::vector<int64_t>();
}

TEST(SizeSweepTest, FactorsAndSteps) {
  EXPECT_THAT(Sizes(8, 64, 1, 2), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(Sizes(8, 63, 1, 2), ElementsAre(8, 16, 32));
  EXPECT_THAT(Sizes(4, 20, 7, 1), ElementsAre(4, 11, 18));
  EXPECT_THAT(Sizes(5, 5, 1, 1), ElementsAre(5));
  EXPECT_THAT(Sizes(0, 2, 1, 1), ElementsAre(0, 1, 2));
}

TEST(SizeSweepTest, AFactorLeavesZeroAndAlwaysGrows) {
  EXPECT_THAT(Sizes(0, 9, 1, 2), ElementsAre(0, 1, 2, 4, 8));
  EXPECT_THAT(Sizes(1, 6, 1, 1.5), ElementsAre(1, 2, 3, 4, 6));
}

TEST(SizeSweepTest, LargeSizesDoNotOverflow) {
  EXPECT_THAT(Sizes(int64_t{1} << 61, int64_t{1} << 62, 1, 8), ElementsAre(int64_t{1} << 61));
}

TEST(SizeSweepTest, WhatCannotBeIsRefused) {
  const auto refused = [](SizeSweep sweep, const char* message) {
    EXPECT_THAT(SizesOf(sweep), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  refused({.min_bytes = -1, .max_bytes = 1}, "-b");
  refused({.min_bytes = 2, .max_bytes = 1}, "-e 1 is below -b 2");
  refused({.min_bytes = 1, .max_bytes = 2, .step_factor = 0.5}, "-f");
  refused({.min_bytes = 1, .max_bytes = 2, .step_bytes = 0}, "-i");
  refused({.min_bytes = 0, .max_bytes = 1'000'000, .step_bytes = 1}, "larger steps");
}

TEST(SizeSweepTest, ListsAreReadInTheirOrder) {
  const auto sizes = ParseSizes("1K,8,2M");
  ASSERT_OK(sizes.status());
  EXPECT_THAT(*sizes, ElementsAre(1024, 8, 2 << 20));
  for (const char* wrong : {"", "8,", "8,x", "8 16"}) {
    EXPECT_THAT(ParseSizes(wrong),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--sizes")));
  }
}

}  // namespace
}  // namespace rz
