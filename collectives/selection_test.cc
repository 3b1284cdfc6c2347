#include "collectives/selection.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kSlice = 256 << 10;

Selector Make(int world, std::string_view wanted = "",
              NumericMode mode = NumericMode::kDeterministic,
              LinkKind link = LinkKind::kSharedMemory) {
  return Selector(world, kSlice, link, *ParseAlgorithms(wanted, mode));
}

TEST(SelectionTest, ChosenIsCheapestEverywhere) {
  for (int world : {1, 2, 3, 4, 7, 8, 16, 33, 64, 1000}) {
    for (LinkKind link : {LinkKind::kSharedMemory, LinkKind::kNetwork}) {
      for (NumericMode mode : {NumericMode::kDeterministic, NumericMode::kFast}) {
        const Selector selector = Make(world, "", mode, link);
        for (Collective collective : kAllCollectives) {
          for (DType dtype : {DType::kBFloat16, DType::kFloat32, DType::kInt8}) {
            for (int64_t count = 0; count < (int64_t{1} << 31); count = count * 3 + 1) {
              const Request request = {
                  .collective = collective, .dtype = dtype, .count = count, .mode = mode};
              ASSERT_OK_AND_ASSIGN(const Explanation explained, selector.Explain(request));
              const Candidate& first = explained.candidates.front();
              ASSERT_TRUE(first.chosen) << explained.text;
              ASSERT_EQ(explained.algorithm(), *selector.Choose(request));
              for (const Candidate& candidate : explained.candidates) {
                if (!candidate.excluded.empty()) continue;
                ASSERT_LE(first.predicted, candidate.predicted) << explained.text;
              }
            }
          }
        }
      }
    }
  }
}

// A larger call is never predicted to be cheaper, across all changes of algorithm.
TEST(SelectionTest, PredictedTimeHasNoCliffs) {
  for (int world : {2, 4, 8, 13}) {
    for (NumericMode mode : {NumericMode::kDeterministic, NumericMode::kFast}) {
      const Selector selector = Make(world, "", mode);
      for (Collective collective : kAllCollectives) {
        if (collective == Collective::kBarrier) continue;
        absl::Duration before;
        for (int64_t count = world; count < (int64_t{1} << 30); count *= 2) {
          ASSERT_OK_AND_ASSIGN(const Explanation explained,
                               selector.Explain({.collective = collective,
                                                 .dtype = DType::kFloat32,
                                                 .count = count,
                                                 .mode = mode}));
          const absl::Duration predicted = explained.candidates.front().predicted;
          EXPECT_GE(predicted, before) << explained.text;
          // Twice the data is never much more than twice the time.
          if (before > absl::ZeroDuration()) {
            EXPECT_LE(predicted, before * 2.5) << explained.text;
          }
          before = predicted;
        }
      }
    }
  }
}

TEST(SelectionTest, DeterministicModeNeverTakesAnotherOrder) {
  const Selector selector = Make(8);
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    for (int64_t count : {1, 1000, 1'000'000, 100'000'000}) {
      const Request request = {
          .collective = traits.collective, .dtype = DType::kFloat32, .count = count};
      ASSERT_OK_AND_ASSIGN(const Algorithm chosen, selector.Choose(request));
      EXPECT_TRUE(TraitsOf(traits.collective, chosen).canonical);
    }
  }
}

TEST(SelectionTest, WhereOrderDoesNotMatterAnyAlgorithmMayBeChosen) {
  const Selector selector = Make(16);
  Request request = {.collective = Collective::kAllReduce, .dtype = DType::kInt32, .count = 2000};
  ASSERT_OK_AND_ASSIGN(const Explanation sums, selector.Explain(request));
  for (const Candidate& candidate : sums.candidates) EXPECT_EQ(candidate.excluded, "");
  request.op = ReduceOp::kFunction;
  ASSERT_OK_AND_ASSIGN(const Explanation function, selector.Explain(request));
  EXPECT_THAT(function.text, HasSubstr("order of summation"));
  request.any_order = true;
  ASSERT_OK_AND_ASSIGN(const Explanation xors, selector.Explain(request));
  for (const Candidate& candidate : xors.candidates) EXPECT_EQ(candidate.excluded, "");
  request.op = ReduceOp::kSum;
  request.any_order = false;
  request.dtype = DType::kFloat32;
  ASSERT_OK_AND_ASSIGN(const Explanation floats, selector.Explain(request));
  EXPECT_THAT(floats.text, HasSubstr("halving: "));
  EXPECT_THAT(floats.text, HasSubstr("order of summation"));
}

TEST(SelectionTest, SmallCallsTakeFewMessagesLargeOnesFewBytes) {
  const Selector selector = Make(16);
  const auto choose = [&](Collective collective, int64_t count) {
    return *selector.Choose({.collective = collective, .dtype = DType::kFloat32, .count = count});
  };
  EXPECT_EQ(choose(Collective::kAllReduce, 1), Algorithm::kBruck);
  EXPECT_NE(choose(Collective::kAllReduce, 10'000'000), Algorithm::kBruck);
  EXPECT_EQ(choose(Collective::kAllGather, 16), Algorithm::kBruck);
  EXPECT_EQ(choose(Collective::kBroadcast, 16), Algorithm::kBinomial);
  EXPECT_NE(choose(Collective::kBroadcast, 100'000'000), Algorithm::kBinomial);
  EXPECT_EQ(choose(Collective::kAllToAll, 1'000'000), Algorithm::kPairwise);
  // Messages that cost more than copies.
  const Selector over_network = Make(16, "", NumericMode::kDeterministic, LinkKind::kNetwork);
  EXPECT_EQ(*over_network.Choose(
                {.collective = Collective::kAllToAll, .dtype = DType::kFloat32, .count = 1}),
            Algorithm::kBruck);
}

TEST(SelectionTest, OverANetworkLargeBlocksGoInSlices) {
  const Selector selector = Make(2, "", NumericMode::kFast, LinkKind::kNetwork);
  for (Collective collective : {Collective::kAllGather, Collective::kAllReduce}) {
    Request request = {.collective = collective, .mode = NumericMode::kFast};
    for (int64_t count : {int64_t{200'000}, int64_t{4'000'000}, int64_t{400'000'000}}) {
      request.count = count;
      ASSERT_OK_AND_ASSIGN(const Explanation explained, selector.Explain(request));
      EXPECT_FALSE(TraitsOf(collective, explained.algorithm()).unsliced) << explained.text;
      EXPECT_THAT(explained.text, HasSubstr("cannot be cut into slices, and a network"));
    }
  }
}

TEST(SelectionTest, NarrowDeterministicSumsOfManyBytesAreExchangedPairwise) {
  const Selector selector = Make(8);
  EXPECT_EQ(
      *selector.Choose(
          {.collective = Collective::kReduceScatter, .dtype = DType::kBFloat16, .count = 1 << 24}),
      Algorithm::kPairwise);
  ASSERT_OK_AND_ASSIGN(const Carriage carriage,
                       selector.CarriageOf(Collective::kReduceScatter, DType::kBFloat16,
                                           NumericMode::kDeterministic));
  EXPECT_THAT(carriage.text, HasSubstr("pairwise (bfloat16 inputs, float32 sums; "));
  EXPECT_EQ(carriage.wire, DType::kBFloat16);
}

TEST(SelectionTest, RanksThatShareMemoryUseIt) {
  Selector selector = Make(4);
  Request request = {.collective = Collective::kAllToAll, .dtype = DType::kFloat32, .count = 100};
  EXPECT_NE(*selector.Choose(request), Algorithm::kShared);
  selector.ShareMemory();
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    for (int64_t count : {0, 1, 100'000}) {
      request.collective = traits.collective;
      request.count = count;
      EXPECT_EQ(*selector.Choose(request), Algorithm::kShared) << traits.collective;
      ASSERT_OK_AND_ASSIGN(const Explanation explained, selector.Explain(request));
      EXPECT_EQ(explained.algorithm(), Algorithm::kShared);
      EXPECT_THAT(explained.text, HasSubstr("the ranks share memory"));
    }
  }
  ASSERT_OK_AND_ASSIGN(
      const Carriage carriage,
      selector.CarriageOf(Collective::kAllReduce, DType::kBFloat16, NumericMode::kDeterministic));
  EXPECT_EQ(carriage.text, "shared (bfloat16 inputs, float32 sums; the ranks share memory)");
  EXPECT_EQ(carriage.wire, std::nullopt);
  // Counts that only their rank knows.
  request = {.collective = Collective::kAllToAll, .dtype = DType::kFloat32, .has_counts = true};
  EXPECT_EQ(*selector.Choose(request), Algorithm::kPairwise);
}

// Two ranks on each of two hosts: a stage within a host takes as long as its ranks' turns.
TEST(SelectionTest, WhereRanksShareCoresSmallMovesAreNotMadeInStages) {
  const auto choose = [](bool cores_are_few, Collective collective, int64_t count) {
    Selector selector = Make(4, "", NumericMode::kFast, LinkKind::kNetwork);
    selector.UseHosts({2, 2, 2, cores_are_few});
    return *selector.Choose({.collective = collective, .count = count, .mode = NumericMode::kFast});
  };
  EXPECT_EQ(choose(false, Collective::kAllGather, 4), Algorithm::kHierarchical);
  EXPECT_NE(choose(true, Collective::kAllGather, 4), Algorithm::kHierarchical);
  EXPECT_NE(choose(true, Collective::kReduceScatter, 4096), Algorithm::kHierarchical);
  EXPECT_EQ(choose(true, Collective::kAllReduce, 4096), Algorithm::kHierarchical);
  EXPECT_EQ(choose(true, Collective::kAllGather, 1 << 20), Algorithm::kHierarchical);
  EXPECT_EQ(choose(true, Collective::kReduceScatter, 1 << 20), Algorithm::kHierarchical);
}

TEST(SelectionTest, SharedMemoryThatIsAskedForHasToBeThere) {
  Selector selector(4, kSlice, LinkKind::kSharedMemory,
                    *ParseAlgorithms("all_reduce:shared", NumericMode::kDeterministic));
  const Request request = {.collective = Collective::kAllReduce, .dtype = DType::kFloat32};
  EXPECT_THAT(selector.Choose(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("the ranks do not share memory")));
  selector.ShareMemory();
  EXPECT_EQ(*selector.Choose(request), Algorithm::kShared);
}

TEST(SelectionTest, TiledSumsSendTheLeastBytes) {
  const Selector selector = Make(4);
  Request request = {.collective = Collective::kAllReduce, .dtype = DType::kFloat32, .count = 8};
  EXPECT_EQ(*selector.Choose(request), Algorithm::kBruck);
  request.tile_chunk = 100;
  EXPECT_NE(*selector.Choose(request), Algorithm::kBruck);
}

TEST(SelectionTest, WhatIsAskedForIsTakenOrRefusedNeverReplaced) {
  const Selector selector = Make(4, "all_to_all:bruck,all_reduce:halving", NumericMode::kFast);
  Request request = {.collective = Collective::kAllToAll,
                     .dtype = DType::kFloat32,
                     .count = 5,
                     .mode = NumericMode::kFast};
  ASSERT_OK_AND_ASSIGN(const Explanation explained, selector.Explain(request));
  EXPECT_EQ(explained.algorithm(), Algorithm::kBruck);
  EXPECT_EQ(explained.reason, "as asked for");
  request.has_counts = true;
  EXPECT_THAT(selector.Choose(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("bruck is asked for"), HasSubstr("all_to_all_v"),
                             HasSubstr("blocks of one length"))));
  Request sum = {.collective = Collective::kAllReduce,
                 .dtype = DType::kFloat32,
                 .count = 100,
                 .mode = NumericMode::kFast};
  EXPECT_EQ(*selector.Choose(sum), Algorithm::kHalving);
  sum.mode = NumericMode::kDeterministic;
  EXPECT_THAT(selector.Choose(sum),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("halving"), HasSubstr("deterministic"))));
  sum.mode = NumericMode::kFast;
  sum.count = int64_t{1} << 30;
  EXPECT_THAT(selector.Choose(sum), StatusIs(absl::StatusCode::kInvalidArgument,
                                             AllOf(HasSubstr("halving"), HasSubstr("scratch"))));
}

TEST(SelectionTest, ScratchOfALaneIsBounded) {
  for (int world : {2, 16, 64, 1000}) {
    const Selector selector = Make(world);
    for (const AlgorithmTraits& traits : AllAlgorithms()) {
      const int64_t slice = selector.SliceElements(traits, DType::kFloat32);
      EXPECT_GE(slice, 1);
      EXPECT_LE(slice * 4, int64_t{kSlice});
      if (traits.footprint == Footprint::kWorldSquared && slice > 1) {
        EXPECT_LE(slice * 4 * world * world, int64_t{kSlice} * 32) << world;
      }
    }
  }
}

}  // namespace
}  // namespace rz
