#include "collectives/chunk_layout.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(EvenSplitTest, FirstPartsGetOneMore) {
  EXPECT_EQ(EvenSplit(10, 4, 0), (Range{0, 3}));
  EXPECT_EQ(EvenSplit(10, 4, 1), (Range{3, 3}));
  EXPECT_EQ(EvenSplit(10, 4, 2), (Range{6, 2}));
  EXPECT_EQ(EvenSplit(10, 4, 3), (Range{8, 2}));
}

TEST(EvenSplitTest, FewerElementsThanParts) {
  EXPECT_EQ(EvenSplit(2, 4, 1), (Range{1, 1}));
  EXPECT_EQ(EvenSplit(2, 4, 2), (Range{2, 0}));
  EXPECT_EQ(EvenSplit(0, 4, 3), (Range{0, 0}));
}

TEST(ChunkLayoutTest, ExampleOfTheHeader) {
  const ChunkLayout layout(23, 2, 5);
  EXPECT_EQ(layout.tile_count(), 3);
  EXPECT_EQ(layout.Chunk(0, Rank(1)), (Range{5, 5}));
  EXPECT_EQ(layout.Chunk(1, Rank(0)), (Range{10, 5}));
  EXPECT_EQ(layout.Chunk(2, Rank(0)), (Range{20, 2}));
  EXPECT_EQ(layout.Chunk(2, Rank(1)), (Range{22, 1}));
  EXPECT_EQ(layout.ShardOffset(2), 10);
  EXPECT_EQ(layout.ShardCount(Rank(0)), 12);
  EXPECT_EQ(layout.ShardCount(Rank(1)), 11);
}

TEST(ChunkLayoutTest, EmptySpaceHasNoTile) {
  for (int64_t tile_chunk : {0, 1, 7}) {
    const ChunkLayout layout(0, 3, tile_chunk);
    EXPECT_EQ(layout.tile_count(), 0);
    EXPECT_EQ(layout.ShardCount(Rank(2)), 0);
  }
}

TEST(ChunkLayoutTest, ChunksPartitionTheSpaceAndPackIntoShards) {
  for (int world = 1; world <= 9; ++world) {
    for (int64_t tile_chunk : {0, 1, 2, 5, 64}) {
      for (int64_t count = 0; count < 120; ++count) {
        const ChunkLayout layout(count, world, tile_chunk);
        int64_t at = 0;
        std::vector<int64_t> shard(world, 0);
        for (int64_t tile = 0; tile < layout.tile_count(); ++tile) {
          for (int r = 0; r < world; ++r) {
            const Range chunk = layout.Chunk(tile, Rank(r));
            ASSERT_EQ(chunk.offset, at) << count << " / " << world << " / " << tile_chunk;
            if (tile_chunk > 0) {
              ASSERT_LE(chunk.count, tile_chunk);
            }
            ASSERT_EQ(layout.ShardOffset(tile), shard[r]);
            at = chunk.end();
            shard[r] += chunk.count;
          }
        }
        ASSERT_EQ(at, count);
        for (int r = 0; r < world; ++r) ASSERT_EQ(layout.ShardCount(Rank(r)), shard[r]);
      }
    }
  }
}

TEST(ChunkLayoutTest, HugeCountsDoNotOverflow) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const ChunkLayout whole(huge, 7, huge);
  EXPECT_EQ(whole.tile_count(), 1);
  EXPECT_EQ(whole.Chunk(0, Rank(6)).end(), huge);
  const ChunkLayout tiled(huge, 7, int64_t{1} << 40);
  EXPECT_EQ(tiled.Chunk(tiled.tile_count() - 1, Rank(6)).end(), huge);
}

}  // namespace
}  // namespace rz
