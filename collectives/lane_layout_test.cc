#include "collectives/lane_layout.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(LaneLayoutTest, SlicesCutEveryChunkAtTheSamePlaces) {
  // One tile of 23: chunks of 12 and 11.
  const LaneLayout lanes(ChunkLayout(23, 2, 0), 5);
  ASSERT_EQ(lanes.lane_count(), 3);
  EXPECT_EQ(lanes.largest_block(), 5);
  EXPECT_EQ(lanes.Block(lanes.At(1), 0), (Range{5, 5}));
  EXPECT_EQ(lanes.Block(lanes.At(1), 1), (Range{17, 5}));
  EXPECT_EQ(lanes.Block(lanes.At(2), 0), (Range{10, 2}));
  EXPECT_EQ(lanes.Block(lanes.At(2), 1), (Range{22, 1}));
  EXPECT_EQ(lanes.ShardOffset(lanes.At(2)), 10);
}

TEST(LaneLayoutTest, EmptySpaceHasNoLane) {
  EXPECT_EQ(LaneLayout(ChunkLayout(0, 4, 3), 5).lane_count(), 0);
  EXPECT_EQ(LaneLayout(ChunkLayout(0, 4, 0), 5).largest_block(), 0);
}

TEST(LaneLayoutTest, BlocksOfAllLanesCoverEachShardInOrder) {
  for (int world = 1; world <= 7; ++world) {
    for (int64_t tile_chunk : {0, 1, 3, 8}) {
      for (int64_t slice : {1, 2, 3, 100}) {
        for (int64_t count = 0; count < 70; ++count) {
          const ChunkLayout chunks(count, world, tile_chunk);
          const LaneLayout lanes(chunks, slice);
          std::vector<int> owner(count, -1);
          for (int r = 0; r < world; ++r) {
            int64_t shard = 0;
            for (int64_t lane = 0; lane < lanes.lane_count(); ++lane) {
              const LaneLayout::Position at = lanes.At(lane);
              const Range block = lanes.Block(at, r);
              ASSERT_LE(block.count, lanes.largest_block());
              ASSERT_EQ(lanes.ElementsBefore(at, r) + block.count, lanes.ElementsBefore(at, r + 1));
              if (block.count == 0) continue;
              ASSERT_EQ(lanes.ShardOffset(at), shard);
              shard += block.count;
              for (int64_t i = block.offset; i < block.end(); ++i) {
                ASSERT_EQ(owner[i], -1);
                owner[i] = r;
              }
            }
            ASSERT_EQ(shard, chunks.ShardCount(Rank(r)));
          }
          for (int o : owner) ASSERT_GE(o, 0);
        }
      }
    }
  }
}

TEST(LaneLayoutTest, ChunksOfAnyLengthsAreCutTheSameWay) {
  const std::vector<int64_t> offsets = {0, 7, 7, 10};
  for (int64_t slice : {int64_t{1}, int64_t{3}, int64_t{7}, LaneLayout::kUnsliced}) {
    const LaneLayout lanes(offsets, slice);
    EXPECT_EQ(lanes.count(), 10);
    EXPECT_EQ(lanes.lane_count(), slice > 7 ? 1 : (7 + slice - 1) / slice);
    EXPECT_EQ(lanes.largest_block(), std::min<int64_t>(slice, 7));
    EXPECT_FALSE(lanes.has_equal_blocks());
    std::vector<int> seen(10);
    for (int64_t lane = 0; lane < lanes.lane_count(); ++lane) {
      const LaneLayout::Position at = lanes.At(lane);
      EXPECT_EQ(lanes.ShardOffset(at), at.begin);
      for (int r = 0; r < 3; ++r) {
        const Range block = lanes.Block(at, r);
        EXPECT_EQ(lanes.ElementsBefore(at, r + 1), lanes.ElementsBefore(at, r) + block.count);
        for (int64_t i = block.offset; i < block.end(); ++i) ++seen[i];
      }
    }
    EXPECT_THAT(seen, ::testing::Each(1));
  }
  const std::vector<int64_t> nothing = {0, 0, 0};
  EXPECT_EQ(LaneLayout(nothing, 5).lane_count(), 0);
}

TEST(LaneLayoutTest, ShardsAreTheBlocksOfAllLanes) {
  const int64_t offsets[] = {0, 5, 5, 23, 30};
  for (const LaneLayout& layout :
       {LaneLayout(ChunkLayout(103, 4, 7), 3), LaneLayout(ChunkLayout(103, 4, 0), 4),
        LaneLayout(ChunkLayout(2, 4, 0), 4), LaneLayout(ChunkLayout(0, 4, 0), 4),
        LaneLayout(offsets, 4)}) {
    int64_t largest = 0;
    for (int r = 0; r < 4; ++r) {
      int64_t elements = 0;
      for (int64_t lane = 0; lane < layout.lane_count(); ++lane) {
        elements += layout.Block(layout.At(lane), r).count;
      }
      EXPECT_EQ(layout.ShardCount(r), elements) << "rank " << r;
      largest = std::max(largest, elements);
    }
    EXPECT_EQ(layout.largest_shard(), largest);
  }
}

TEST(LaneLayoutTest, HugeCountsDoNotOverflow) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const LaneLayout lanes(ChunkLayout(huge, 3, 0), 1 << 16);
  EXPECT_EQ(lanes.Block(lanes.At(lanes.lane_count() - 1), 2).end(), huge);
}

}  // namespace
}  // namespace rz
