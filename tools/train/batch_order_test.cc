#include "tools/train/batch_order.h"

#include <algorithm>

#include "gmock/gmock.h"

namespace rz {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<int64_t> Epoch(BatchOrder& order, int64_t epoch) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < order.steps_per_epoch(); ++i) {
    const auto batch = order.GlobalBatch(epoch * order.steps_per_epoch() + i);
    samples.insert(samples.end(), batch.begin(), batch.end());
  }
  return samples;
}

TEST(BatchOrderTest, EachEpoch_IsADifferentPermutation) {
  BatchOrder order(103, 10, 1);
  EXPECT_EQ(order.steps_per_epoch(), 11);
  std::vector<int64_t> first = Epoch(order, 0);
  std::vector<int64_t> second = Epoch(order, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(Epoch(order, 0), first);
  for (std::vector<int64_t>* samples : {&first, &second}) {
    EXPECT_FALSE(std::is_sorted(samples->begin(), samples->end()));
    std::sort(samples->begin(), samples->end());
    ASSERT_THAT(*samples, SizeIs(103));
    for (int64_t i = 0; i < 103; ++i) EXPECT_EQ((*samples)[static_cast<size_t>(i)], i);
  }
}

TEST(BatchOrderTest, LastBatch_HasWhatIsLeft) {
  BatchOrder order(103, 10, 1);
  EXPECT_THAT(order.GlobalBatch(9), SizeIs(10));
  EXPECT_THAT(order.GlobalBatch(10), SizeIs(3));
  EXPECT_THAT(order.GlobalBatch(11), SizeIs(10));
  BatchOrder whole(20, 20, 1);
  EXPECT_EQ(whole.steps_per_epoch(), 1);
  EXPECT_THAT(whole.GlobalBatch(5), SizeIs(20));
}

TEST(BatchOrderTest, Shares_AreTheGlobalBatchInOrder) {
  BatchOrder order(103, 10, 7);
  for (const int world : {1, 2, 3, 4, 8, 16}) {
    for (const int64_t step : {int64_t{0}, int64_t{10}}) {
      std::vector<int64_t> joined;
      for (int rank = 0; rank < world; ++rank) {
        const auto share = order.LocalBatch(step, Rank(rank), world);
        joined.insert(joined.end(), share.begin(), share.end());
      }
      EXPECT_THAT(joined, ElementsAreArray(order.GlobalBatch(step)));
    }
  }
}

TEST(BatchOrderTest, MoreRanksThanSamples_LastRanksGetNone) {
  BatchOrder order(5, 3, 7);
  EXPECT_THAT(order.LocalBatch(0, Rank(2), 4), SizeIs(1));
  EXPECT_THAT(order.LocalBatch(0, Rank(3), 4), IsEmpty());
}

TEST(BatchOrderTest, SeedsGiveDifferentOrders) {
  BatchOrder a(100, 100, 1);
  BatchOrder b(100, 100, 1);
  BatchOrder c(100, 100, 2);
  EXPECT_EQ(Epoch(a, 0), Epoch(b, 0));
  EXPECT_NE(Epoch(a, 0), Epoch(c, 0));
}

TEST(BatchOrderTest, OneSample) {
  BatchOrder order(1, 1, 0);
  EXPECT_THAT(order.GlobalBatch(3), ElementsAre(0));
}

}  // namespace
}  // namespace rz
