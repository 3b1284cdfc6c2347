#include "collectives/algorithm.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<WantedAlgorithms> Parse(std::string_view wanted,
                                       NumericMode mode = NumericMode::kDeterministic) {
  return ParseAlgorithms(wanted, mode);
}

TEST(ParseAlgorithmsTest, EveryAlgorithmInTheTableCanBeAskedFor) {
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    const std::string token =
        std::string(NameOf(traits.collective)) + ":" + std::string(NameOf(traits.algorithm));
    ASSERT_OK_AND_ASSIGN(const WantedAlgorithms wanted, Parse(token, NumericMode::kFast));
    EXPECT_EQ(wanted[static_cast<size_t>(traits.collective)], traits.algorithm) << token;
    EXPECT_EQ(Parse(token).ok(), traits.canonical) << token;
  }
}

TEST(ParseAlgorithmsTest, OthersStayOpen) {
  ASSERT_OK_AND_ASSIGN(const WantedAlgorithms wanted, Parse("reduce_scatter:ring,broadcast:chain"));
  EXPECT_EQ(wanted[static_cast<size_t>(Collective::kReduceScatter)], Algorithm::kRing);
  EXPECT_EQ(wanted[static_cast<size_t>(Collective::kBroadcast)], Algorithm::kChain);
  EXPECT_EQ(wanted[static_cast<size_t>(Collective::kAllReduce)], std::nullopt);
}

TEST(ParseAlgorithmsTest, UnknownTokensSayWhatIsKnown) {
  EXPECT_THAT(Parse("reduce_scatter:rnig"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("did you mean 'ring'?"), HasSubstr("pairwise"))));
  EXPECT_THAT(
      Parse("reduce_scater:ring"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("did you mean 'reduce_scatter'?"), HasSubstr("all_gather"))));
  EXPECT_THAT(Parse("all_gather:pairwise"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("known: ring, bruck")));
  EXPECT_THAT(Parse("ring"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("collective:algorithm")));
  EXPECT_THAT(Parse("all_gather:ring,"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Parse("all_gather:ring,all_gather:ring"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
}

TEST(ParseAlgorithmsTest, AlgorithmThatBreaksTheModeIsAnErrorThatNamesOthers) {
  EXPECT_THAT(Parse("all_reduce:ring_wire"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("deterministic"), HasSubstr("ring or pairwise or bruck"))));
  EXPECT_OK(Parse("all_reduce:ring_wire", NumericMode::kFast));
}

TEST(AlgorithmTableTest, EveryCollectiveHasACanonicalAlgorithmThatTakesAnyCounts) {
  std::set<Collective> covered;
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    if (traits.canonical && !traits.equal_blocks && !traits.unsliced) {
      covered.insert(traits.collective);
    }
    EXPECT_EQ(&TraitsOf(traits.collective, traits.algorithm), &traits);
  }
  EXPECT_EQ(covered.size(), kCollectiveCount);
}

TEST(PartialsTest, OnlyRingsInFastModeKeepSixteenBits) {
  using enum Algorithm;
  const auto deterministic = NumericMode::kDeterministic;
  EXPECT_EQ(PartialsOf(kRing, DType::kFloat16, deterministic), Format::kAccumulator);
  EXPECT_EQ(PartialsOf(kRing, DType::kFloat16, NumericMode::kFast), Format::kWire);
  EXPECT_EQ(PartialsOf(kPairwise, DType::kFloat16, NumericMode::kFast), Format::kAccumulator);
  EXPECT_EQ(PartialsOf(kRing, DType::kFloat32, deterministic), Format::kWire);
}

TEST(OrderMattersTest, OnlyToSumsAndProductsOfFloats) {
  EXPECT_TRUE(OrderMatters(DType::kFloat32, ReduceOp::kSum));
  EXPECT_TRUE(OrderMatters(DType::kFloat8E5M2, ReduceOp::kProd));
  EXPECT_FALSE(OrderMatters(DType::kBFloat16, ReduceOp::kMax));
  EXPECT_FALSE(OrderMatters(DType::kInt8, ReduceOp::kSum));
}

}  // namespace
}  // namespace rz
