#include "optimizer/config/batch_size.h"

#include <limits>
#include <optional>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::nullopt_t kNone = std::nullopt;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

void ExpectSizes(std::optional<int64_t> train, std::optional<int64_t> micro,
                 std::optional<int64_t> accumulation, int ranks, const BatchSizes& expected) {
  ASSERT_OK_AND_ASSIGN(const BatchSizes sizes, SolveBatchSizes(train, micro, accumulation, ranks));
  EXPECT_EQ(sizes.train, expected.train);
  EXPECT_EQ(sizes.micro, expected.micro);
  EXPECT_EQ(sizes.accumulation, expected.accumulation);
}

TEST(BatchSizesTest, AnyTwoGiveTheThird) {
  ExpectSizes(96, 4, kNone, 3, {96, 4, 8});
  ExpectSizes(96, kNone, 8, 3, {96, 4, 8});
  ExpectSizes(kNone, 4, 8, 3, {96, 4, 8});
  ExpectSizes(96, 4, 8, 3, {96, 4, 8});
}

TEST(BatchSizesTest, OneAloneAccumulatesNothing) {
  ExpectSizes(96, kNone, kNone, 3, {96, 32, 1});
  ExpectSizes(kNone, 4, kNone, 3, {12, 4, 1});
}

TEST(BatchSizesTest, WhatDoesNotMultiplyNamesAll) {
  EXPECT_THAT(SolveBatchSizes(100, 4, 8, 3),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("100"), HasSubstr("3 ranks is 96"))));
  EXPECT_THAT(SolveBatchSizes(100, kNone, kNone, 3),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("100"), HasSubstr("3 ranks"))));
  EXPECT_THAT(SolveBatchSizes(100, 7, kNone, 1),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("per_gpu 7"), HasSubstr("1 rank"))));
}

TEST(BatchSizesTest, OneIsNeededAndNoneIsBelowOne) {
  EXPECT_THAT(SolveBatchSizes(kNone, kNone, 8, 3), StatusIs(kInvalidArgument, HasSubstr("give")));
  EXPECT_THAT(SolveBatchSizes(0, kNone, kNone, 3),
              StatusIs(kInvalidArgument, HasSubstr("train_batch_size is 0")));
  EXPECT_THAT(SolveBatchSizes(8, kNone, -2, 3),
              StatusIs(kInvalidArgument, HasSubstr("gradient_accumulation_steps is -2")));
}

TEST(BatchSizesTest, AStepThatIsGivenNeedNotDivide) {
  const auto expect = [](int64_t train, std::optional<int64_t> micro,
                         std::optional<int64_t> accumulation, const BatchSizes& expected) {
    ASSERT_OK_AND_ASSIGN(const BatchSizes sizes, ShareBatch(train, micro, accumulation, 3));
    EXPECT_EQ(sizes.train, expected.train);
    EXPECT_EQ(sizes.micro, expected.micro);
    EXPECT_EQ(sizes.accumulation, expected.accumulation);
  };
  expect(100, kNone, kNone, {100, 34, 1});
  expect(100, kNone, 8, {100, 5, 8});
  // No rank takes more than 4 at once.
  expect(96, 4, kNone, {96, 4, 8});
  expect(97, 4, kNone, {97, 4, 9});
  expect(1, 4, kNone, {1, 1, 1});
  // The number of micro-steps is what was asked for.
  expect(100, 4, 2, {100, 17, 2});
  EXPECT_THAT(ShareBatch(100, 0, kNone, 3),
              StatusIs(kInvalidArgument, HasSubstr("train_micro_batch_size_per_gpu is 0")));
}

TEST(BatchSizesTest, SizesBeyond64BitsAreRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(SolveBatchSizes(kNone, kMost / 2, 3, 1), StatusIs(kInvalidArgument));
  EXPECT_THAT(SolveBatchSizes(kMost, kMost / 2, kNone, 3), StatusIs(kInvalidArgument));
}

}  // namespace
}  // namespace rz
