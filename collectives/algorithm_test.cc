#include "collectives/algorithm.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kSlice = 256 << 10;

absl::StatusOr<AlgorithmTable> Parse(std::string_view wanted,
                                     NumericMode mode = NumericMode::kDeterministic) {
  return AlgorithmTable::Parse(wanted, mode, kSlice);
}

TEST(AlgorithmTableTest, DeterministicNarrowSumsAreExchangedPairwise) {
  ASSERT_OK_AND_ASSIGN(const AlgorithmTable table, Parse(""));
  for (DType dtype : kAllDTypes) {
    const bool narrow = AccumulatorOf(dtype) != dtype;
    EXPECT_EQ(table.Choose(Collective::kReduceScatter, dtype, 1 << 20).algorithm,
              narrow ? Algorithm::kPairwise : Algorithm::kRing)
        << dtype;
  }
}

TEST(AlgorithmTableTest, FastModeTakesTheRing) {
  ASSERT_OK_AND_ASSIGN(const AlgorithmTable table, Parse("", NumericMode::kFast));
  EXPECT_EQ(table.Choose(Collective::kAllReduce, DType::kBFloat16, 1 << 20).algorithm,
            Algorithm::kRing);
}

TEST(AlgorithmTableTest, LargeBroadcastsGoAlongTheChain) {
  ASSERT_OK_AND_ASSIGN(const AlgorithmTable table, Parse(""));
  const int64_t limit = 8 * int64_t{kSlice};
  EXPECT_EQ(table.Choose(Collective::kBroadcast, DType::kFloat32, limit).algorithm,
            Algorithm::kBinomial);
  EXPECT_EQ(table.Choose(Collective::kBroadcast, DType::kFloat32, limit + 1).algorithm,
            Algorithm::kChain);
}

TEST(AlgorithmTableTest, WantedAlgorithmsAreTaken) {
  ASSERT_OK_AND_ASSIGN(const AlgorithmTable table, Parse("reduce_scatter:ring,broadcast:chain"));
  EXPECT_EQ(table.Choose(Collective::kReduceScatter, DType::kBFloat16, 8).algorithm,
            Algorithm::kRing);
  EXPECT_EQ(table.Choose(Collective::kBroadcast, DType::kBFloat16, 8).algorithm, Algorithm::kChain);
  EXPECT_EQ(table.Choose(Collective::kAllReduce, DType::kBFloat16, 8).algorithm,
            Algorithm::kPairwise);
}

TEST(AlgorithmTableTest, UnknownTokensSayWhatIsKnown) {
  EXPECT_THAT(Parse("reduce_scatter:rnig"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("did you mean 'ring'?"), HasSubstr("pairwise"))));
  EXPECT_THAT(
      Parse("reduce_scater:ring"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("did you mean 'reduce_scatter'?"), HasSubstr("all_gather"))));
  EXPECT_THAT(Parse("all_gather:pairwise"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("known: ring")));
  EXPECT_THAT(Parse("ring"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("collective:algorithm")));
  EXPECT_THAT(Parse("all_gather:ring,"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Parse("all_gather:ring,all_gather:ring"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
}

TEST(AlgorithmTableTest, AlgorithmThatBreaksTheModeIsAnError) {
  EXPECT_THAT(Parse("all_reduce:ring_wire"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("deterministic")));
  EXPECT_OK(Parse("all_reduce:ring_wire", NumericMode::kFast));
}

TEST(AlgorithmTableTest, DescriptionGivesTheReason) {
  ASSERT_OK_AND_ASSIGN(const AlgorithmTable table, Parse("all_reduce:ring"));
  EXPECT_EQ(table.Describe(Collective::kReduceScatter, DType::kBFloat16),
            "pairwise (bfloat16 inputs, float32 sums; a ring would carry 4-byte partial sums)");
  EXPECT_EQ(table.Describe(Collective::kAllReduce, DType::kBFloat16),
            "ring (float32 partial sums; as asked for)");
  EXPECT_EQ(table.Describe(Collective::kAllGather, DType::kBFloat16), "ring");
  EXPECT_THAT(table.Describe(Collective::kBroadcast, DType::kInt32), StartsWith("binomial"));
}

TEST(PartialsTest, OnlyRingsInFastModeKeepSixteenBits) {
  using enum Algorithm;
  const auto deterministic = NumericMode::kDeterministic;
  EXPECT_EQ(PartialsOf(kRing, DType::kFloat16, deterministic), Format::kAccumulator);
  EXPECT_EQ(PartialsOf(kRing, DType::kFloat16, NumericMode::kFast), Format::kWire);
  EXPECT_EQ(PartialsOf(kPairwise, DType::kFloat16, NumericMode::kFast), Format::kAccumulator);
  EXPECT_EQ(PartialsOf(kRing, DType::kFloat32, deterministic), Format::kWire);
}

}  // namespace
}  // namespace rz
