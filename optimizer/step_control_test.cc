#include "optimizer/step_control.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

StepVote Vote(double squares) {
  StepVote vote;
  vote.sum_of_squares = squares;
  vote.plan_hash = 7;
  vote.step = 3;
  vote.learning_rate = 0.5;
  return vote;
}

uint64_t HashOf(const std::vector<ParamSpec>& specs, int world, const ZeroConfig& config) {
  const FlatLayout layout = FlatLayout::Create(specs).value();
  return PlanHash(layout,
                  Partition::Create(layout.flat_elements(), world,
                                    {config.tile_chunk, config.reduce_bucket_size})
                      .value(),
                  config);
}

TEST(DecideTest, TakesTheStepWithTheNormOfAllRanks) {
  ASSERT_OK_AND_ASSIGN(const StepDecision decision, Decide({Vote(9), Vote(16), Vote(0)}));
  EXPECT_TRUE(decision.take);
  EXPECT_EQ(decision.norm, 5);
}

TEST(DecideTest, AddsSquaresInTheOrderOfRanks) {
  // 2^53 + 1 + 1 is 2^53 from the left and 2^53 + 2 from the right.
  ASSERT_OK_AND_ASSIGN(const StepDecision decision,
                       Decide({Vote(std::ldexp(1, 53)), Vote(1), Vote(1)}));
  EXPECT_EQ(decision.norm, std::sqrt(std::ldexp(1, 53)));
}

TEST(DecideTest, SkipsOnAnyRanksNonFiniteGradientAndNamesTheFirst) {
  std::vector<StepVote> votes = {Vote(1), Vote(std::numeric_limits<double>::infinity()), Vote(NAN)};
  votes[1].non_finite_count = 2;
  votes[1].first_non_finite = 70;
  votes[2].non_finite_count = 1;
  votes[2].first_non_finite = 40;
  ASSERT_OK_AND_ASSIGN(const StepDecision decision, Decide(votes));
  EXPECT_FALSE(decision.take);
  EXPECT_EQ(decision.non_finite_count, 3);
  EXPECT_EQ(decision.first_non_finite, 40);
}

TEST(DecideTest, AddsTheSquaresOfOneGroupOfReplicas) {
  ASSERT_OK_AND_ASSIGN(const StepDecision decision,
                       Decide({Vote(9), Vote(16), Vote(9), Vote(16)}, 2));
  EXPECT_EQ(decision.norm, 5);
  std::vector<StepVote> votes = {Vote(NAN), Vote(16), Vote(NAN), Vote(16)};
  votes[0].non_finite_count = votes[2].non_finite_count = 3;
  ASSERT_OK_AND_ASSIGN(const StepDecision skipped, Decide(votes, 2));
  EXPECT_EQ(skipped.non_finite_count, 3);
}

TEST(DecideTest, ReplicasOfAShardThatDifferAreAnError) {
  EXPECT_THAT(Decide({Vote(9), Vote(16), Vote(9), Vote(17)}, 2),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("rank 3's"), HasSubstr("17"), HasSubstr("rank 1"))));
}

TEST(DecideTest, DisagreementNamesRankAndBothValues) {
  std::vector<StepVote> votes = {Vote(1), Vote(1), Vote(1)};
  votes[2].loss_scale = 1024;
  EXPECT_THAT(Decide(votes), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      AllOf(HasSubstr("rank 2"), HasSubstr("scale 1024"))));
  votes[2].learning_rate = 0.25;
  EXPECT_THAT(Decide(votes),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("rank 2"), HasSubstr("0.25"), HasSubstr("0.5"))));
  votes[1].step = 4;
  EXPECT_THAT(Decide(votes), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      AllOf(HasSubstr("rank 1"), HasSubstr("steps 4"))));
  votes[1].plan_hash = 8;
  EXPECT_THAT(Decide(votes), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      AllOf(HasSubstr("rank 1"), HasSubstr("plan"))));
}

TEST(PlanHashTest, ChangesWithWhatMustBeAlike) {
  const ZeroConfig config;
  const uint64_t hash = HashOf({{"w", {3, 4}}}, 2, config);
  EXPECT_EQ(HashOf({{"w", {3, 4}}}, 2, config), hash);
  EXPECT_NE(HashOf({{"v", {3, 4}}}, 2, config), hash);
  EXPECT_NE(HashOf({{"w", {4, 3}}}, 2, config), hash);
  EXPECT_NE(HashOf({{"w", {3, 4}}}, 3, config), hash);
  ZeroConfig other = config;
  other.stage = ZeroStage::kDdp;
  EXPECT_NE(HashOf({{"w", {3, 4}}}, 2, other), hash);
  other = config;
  other.dtype = DType::kFloat32;
  EXPECT_NE(HashOf({{"w", {3, 4}}}, 2, other), hash);
  other = config;
  other.optimizer.weight_decay = 0;
  EXPECT_NE(HashOf({{"w", {3, 4}}}, 2, other), hash);
}

TEST(StepControlTest, TheCauseIsTheFirstRankThatBroughtItAndItsParameter) {
  const FlatLayout layout = FlatLayout::Create({{"a", {2}}, {"b", {3}}}).value();
  std::vector<StepVote> votes = {Vote(1), Vote(1), Vote(1)};
  EXPECT_EQ(NonFiniteCause(votes, layout),
            "the gradient of each rank is finite, what they are reduced to is not");
  votes[1].own_non_finite = 1;
  votes[2].own_non_finite = 0;
  EXPECT_EQ(NonFiniteCause(votes, layout), "rank 1's gradient of b is not finite");
}

}  // namespace
}  // namespace rz
