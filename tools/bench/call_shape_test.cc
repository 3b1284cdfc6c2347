#include "tools/bench/call_shape.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

using Op = BenchOperation;
using ::testing::ElementsAre;

CallShape Shape(Op operation, int64_t bytes, int world, int rank, int root = 0,
                CountPattern pattern = CountPattern::kHalf) {
  return ShapeOf({.operation = operation,
                  .bytes = bytes,
                  .element_size = 4,
                  .world = world,
                  .rank = Rank(rank),
                  .root = Rank(root),
                  .pattern = pattern});
}

TEST(SpreadCountsTest, PatternsAddUp) {
  EXPECT_THAT(SpreadCounts(CountPattern::kEven, 7, 4), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(SpreadCounts(CountPattern::kHalf, 7, 4), ElementsAre(4, 1, 1, 1));
  EXPECT_THAT(SpreadCounts(CountPattern::kHalf, 7, 1), ElementsAre(7));
  EXPECT_THAT(SpreadCounts(CountPattern::kZero, 7, 4), ElementsAre(4, 0, 3, 0));
  EXPECT_THAT(SpreadCounts(CountPattern::kZero, 7, 1), ElementsAre(7));
  EXPECT_THAT(SpreadCounts(CountPattern::kZero, 0, 3), ElementsAre(0, 0, 0));
}

TEST(CallShapeTest, BytesThatFillNoElementAreDropped) {
  const CallShape shape = Shape(Op::kAllReduce, 11, 3, 1);
  EXPECT_EQ(shape.count, 2);
  EXPECT_EQ(shape.size_bytes, 8);
  EXPECT_EQ(Shape(Op::kAllGather, 3, 3, 1).size_bytes, 0);
}

TEST(CallShapeTest, ReduceScatterSplitsTheWholeWithItsRemainder) {
  const CallShape shape = Shape(Op::kReduceScatter, 28, 3, 1);  // 7 elements: 3 2 2
  EXPECT_EQ(shape.send_count, 7);
  EXPECT_EQ(shape.recv_count, 2);
  EXPECT_EQ(shape.in_place_recv, 3);
  EXPECT_EQ(shape.size_bytes, 28);
  EXPECT_THAT(shape.expected, ElementsAre(ExpectedPiece{.count = 2, .source_index = 3}));
}

TEST(CallShapeTest, AllGatherPutsEveryShardInItsPlace) {
  const CallShape shape = Shape(Op::kAllGather, 12, 2, 1);  // 2 1
  EXPECT_EQ(shape.send_count, 1);
  EXPECT_EQ(shape.send_index, 2);
  EXPECT_EQ(shape.in_place_send, 2);
  EXPECT_THAT(shape.expected,
              ElementsAre(ExpectedPiece{.offset = 0, .count = 2, .source = 0},
                          ExpectedPiece{.offset = 2, .count = 1, .source = 1, .source_index = 2}));
}

TEST(CallShapeTest, OnlyTheRootHasTheLargeBuffer) {
  EXPECT_EQ(Shape(Op::kGather, 16, 2, 0, 1).recv_count, 0);
  EXPECT_EQ(Shape(Op::kGather, 16, 2, 1, 1).recv_count, 4);
  EXPECT_EQ(Shape(Op::kGather, 16, 2, 1, 1).in_place_send, 2);
  EXPECT_EQ(Shape(Op::kGather, 16, 2, 0, 1).in_place_send, 0);
  EXPECT_EQ(Shape(Op::kScatter, 16, 2, 0, 1).send_count, 0);
  EXPECT_EQ(Shape(Op::kScatter, 16, 2, 1, 1).send_count, 4);
  EXPECT_EQ(Shape(Op::kScatter, 16, 2, 1, 1).in_place_recv, 2);
  EXPECT_EQ(Shape(Op::kReduce, 16, 2, 0, 1).recv_count, 0);
  EXPECT_EQ(Shape(Op::kReduce, 16, 2, 1, 1).recv_count, 4);
  // The size is the root's on every rank.
  EXPECT_EQ(Shape(Op::kGather, 16, 2, 0, 1).size_bytes, 16);
}

TEST(CallShapeTest, AllToAllTakesACountForEachRank) {
  const CallShape shape = Shape(Op::kAllToAll, 28, 3, 1);  // 7 elements: 2 for each
  EXPECT_EQ(shape.count, 2);
  EXPECT_EQ(shape.size_bytes, 24);
  EXPECT_THAT(shape.expected,
              ElementsAre(ExpectedPiece{.offset = 0, .count = 2, .source = 0, .source_index = 2},
                          ExpectedPiece{.offset = 2, .count = 2, .source = 1, .source_index = 2},
                          ExpectedPiece{.offset = 4, .count = 2, .source = 2, .source_index = 2}));
}

TEST(CallShapeTest, SendRecvComesFromTheRankBefore) {
  EXPECT_EQ(Shape(Op::kSendRecv, 8, 3, 0).expected[0].source, 2);
  EXPECT_EQ(Shape(Op::kSendRecv, 8, 3, 2).expected[0].source, 1);
}

// Buffers fit the size, ranks agree about every pair, whatever the pattern.
TEST(CallShapeTest, AllToAllVKeepsWithinTheSize) {
  for (CountPattern pattern : {CountPattern::kEven, CountPattern::kHalf, CountPattern::kZero}) {
    for (int world = 1; world <= 5; ++world) {
      for (int64_t elements = 0; elements < 40; ++elements) {
        std::vector<CallShape> shapes;
        shapes.reserve(world);
        for (int rank = 0; rank < world; ++rank) {
          shapes.push_back(Shape(Op::kAllToAllV, elements * 4, world, rank, 0, pattern));
        }
        int64_t most = 0;
        for (int rank = 0; rank < world; ++rank) {
          const CallShape& shape = shapes[rank];
          EXPECT_LE(std::max(shape.send_count, shape.recv_count), elements);
          most = std::max({most, shape.send_count, shape.recv_count});
          for (int peer = 0; peer < world; ++peer) {
            EXPECT_EQ(shape.recv_counts[peer], shapes[peer].counts[rank]);
          }
        }
        for (const CallShape& shape : shapes) EXPECT_EQ(shape.size_bytes, most * 4);
        if (elements >= world * world) {
          EXPECT_GT(most, elements / 2);
        }
      }
    }
  }
}

}  // namespace
}  // namespace rz
