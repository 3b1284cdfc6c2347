#include "optimizer/layout/partition.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr int kWorlds[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 64};
constexpr int64_t kSizes[] = {0, 1, 3, 4, 5, 31, 32, 33, 7919, 8192, 100003};

Partition Make(int64_t flat_elements, int world, int64_t tile_chunk, int64_t bucket_size) {
  return Partition::Create(flat_elements, world, {tile_chunk, bucket_size}).value();
}

TEST(PartitionTest, EveryShardHasTheSameSizeAndEveryChunkIsAligned) {
  for (const int world : kWorlds) {
    for (const int64_t size : kSizes) {
      const Partition partition = Make(size, world, 64, 1000);
      EXPECT_GE(partition.padded_elements(), size);
      EXPECT_LT(partition.padded_elements() - size, kAlignmentElements * world);
      EXPECT_EQ(partition.shard_elements() * world, partition.padded_elements());
      for (int rank = 0; rank < world; ++rank) {
        int64_t shard = 0;
        for (int64_t tile = 0; tile < partition.tile_count(); ++tile) {
          const Range chunk = partition.Chunk(tile, Rank(rank));
          ASSERT_EQ(chunk.offset % kAlignmentElements, 0);
          ASSERT_EQ(chunk.count, partition.Chunk(tile, Rank(0)).count);
          ASSERT_EQ(partition.ShardOffset(tile), shard);
          shard += chunk.count;
        }
        ASSERT_EQ(shard, partition.shard_elements());
      }
    }
  }
}

TEST(PartitionTest, LocateAndFlatIndexAreInverseAndAgreeWithTheChunks) {
  for (const int world : kWorlds) {
    for (const int64_t size : {0, 1, 33, 7919}) {
      const Partition partition = Make(size, world, 64, 1);
      for (int64_t at = 0; at < partition.padded_elements(); ++at) {
        const ShardPlace place = partition.Locate(at);
        ASSERT_EQ(partition.FlatIndex(place), at);
        const Range chunk = partition.Chunk(place.offset / 64, place.rank);
        ASSERT_TRUE(chunk.offset <= at && at < chunk.end()) << at;
      }
    }
  }
}

TEST(PartitionTest, BucketsAreConsecutiveAndCutLikeTheWhole) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 500; ++round) {
    const int world = kWorlds[random() % std::size(kWorlds)];
    const int64_t size = kSizes[random() % std::size(kSizes)];
    const Partition partition =
        Make(size, world, int64_t{32} << random() % 4, 1 + random() % 200000);
    int64_t flat = 0, shard = 0, tile = 0;
    for (int64_t b = 0; b < partition.bucket_count(); ++b) {
      const Bucket bucket = partition.bucket(b);
      ASSERT_EQ(bucket.flat.offset, flat);
      ASSERT_EQ(bucket.shard.offset, shard);
      ASSERT_EQ(bucket.first_tile, tile);
      ASSERT_GT(bucket.tile_count, 0);
      // What a collective over the bucket alone makes of it.
      const ChunkLayout alone(bucket.flat.count, world, partition.tile_chunk());
      ASSERT_EQ(alone.tile_count(), bucket.tile_count);
      for (int64_t t = 0; t < bucket.tile_count; ++t) {
        const Rank rank(static_cast<int32_t>(random() % world));
        const Range chunk = partition.Chunk(tile + t, rank);
        ASSERT_EQ(alone.Chunk(t, rank), (Range{chunk.offset - flat, chunk.count}));
        ASSERT_EQ(alone.ShardOffset(t), partition.ShardOffset(tile + t) - shard);
      }
      flat = bucket.flat.end();
      shard = bucket.shard.end();
      tile += bucket.tile_count;
    }
    ASSERT_EQ(flat, partition.padded_elements());
    ASSERT_EQ(shard, partition.shard_elements());
    ASSERT_EQ(tile, partition.tile_count());
  }
}

TEST(PartitionTest, OwnershipDoesNotDependOnTheBucketSize) {
  const Partition small = Make(100003, 5, 64, 1);
  const Partition large = Make(100003, 5, 64, 1'000'000);
  EXPECT_GT(small.bucket_count(), large.bucket_count());
  ASSERT_EQ(small.tile_count(), large.tile_count());
  for (int64_t tile = 0; tile < small.tile_count(); ++tile) {
    EXPECT_EQ(small.Chunk(tile, Rank(3)), large.Chunk(tile, Rank(3)));
  }
}

TEST(PartitionTest, SmallBucketsRoundUpToATileAndSaySo) {
  const Partition partition = Make(100003, 4, 64, 1000);
  EXPECT_EQ(partition.bucket_elements(), 1024);
  EXPECT_THAT(partition.BucketRounding(), AllOf(HasSubstr("1000"), HasSubstr("1024")));
  EXPECT_THAT(Make(100003, 4, 64, 1024).BucketRounding(), IsEmpty());
}

TEST(PartitionTest, LargeBucketsAreTheWholeModel) {
  const Partition partition = Make(1000, 4, 64, 500'000'000);
  EXPECT_EQ(partition.bucket_count(), 1);
  EXPECT_EQ(partition.bucket(0).flat, (Range{0, 1024}));
  EXPECT_THAT(partition.BucketRounding(), IsEmpty());
}

TEST(PartitionTest, EachSegmentIsCutLikeASpaceOfItsOwn) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const int world = kWorlds[random() % std::size(kWorlds)];
    const int64_t unit = kAlignmentElements * world;
    std::vector<int64_t> segments;
    for (uint64_t i = 0, count = 1 + random() % 5; i < count; ++i) {
      segments.push_back(static_cast<int64_t>(random() % 12) * unit);
    }
    const int64_t bucket_size = 1 + static_cast<int64_t>(random() % 10000);
    const Partition whole = Partition::Create(segments, world, {64, bucket_size}).value();
    int64_t flat = 0, tile = 0, bucket = 0;
    for (const int64_t elements : segments) {
      const Partition alone = Make(elements, world, 64, bucket_size);
      for (int64_t t = 0; t < alone.tile_count(); ++t, ++tile) {
        const Rank rank(static_cast<int32_t>(random() % world));
        const Range chunk = alone.Chunk(t, rank);
        ASSERT_EQ(whole.Chunk(tile, rank), (Range{flat + chunk.offset, chunk.count}));
        ASSERT_EQ(whole.ShardOffset(tile), flat / world + alone.ShardOffset(t));
      }
      for (int64_t b = 0; b < alone.bucket_count(); ++b, ++bucket) {
        const Bucket expected = alone.bucket(b), found = whole.bucket(bucket);
        ASSERT_EQ(found.index, bucket);
        ASSERT_EQ(found.tile_count, expected.tile_count);
        ASSERT_EQ(found.flat, (Range{flat + expected.flat.offset, expected.flat.count}));
        ASSERT_EQ(found.shard, (Range{flat / world + expected.shard.offset, expected.shard.count}));
        ASSERT_LE(found.flat.count, whole.largest_bucket());
        ASSERT_EQ(whole.BucketOf(found.flat.offset), bucket);
        ASSERT_EQ(whole.BucketOf(found.flat.end() - 1), bucket);
      }
      flat += elements;
    }
    ASSERT_EQ(whole.padded_elements(), flat);
    ASSERT_EQ(whole.tile_count(), tile);
    ASSERT_EQ(whole.bucket_count(), bucket);
    for (int64_t at = 0; at < flat; at += 7) {
      ASSERT_EQ(whole.FlatIndex(whole.Locate(at)), at);
      ASSERT_EQ(whole.TileOf(at),
                whole.bucket(whole.BucketOf(at)).first_tile +
                    (at - whole.bucket(whole.BucketOf(at)).flat.offset) / (64 * world));
    }
  }
}

TEST(PartitionTest, FrozenSegmentsAreOwnedAlikeAndInNoBucket) {
  constexpr int kWorld = 3;
  constexpr int64_t kUnit = kAlignmentElements * kWorld;
  const std::vector<int64_t> trained = {2 * kUnit, 0, 5 * kUnit}, frozen = {9 * kUnit, kUnit};
  const Partition partition = Partition::Create(trained, kWorld, {32, 1000}, frozen).value();
  const Partition alone = Partition::Create(trained, kWorld, {32, 1000}).value();
  EXPECT_EQ(partition.padded_elements(), alone.padded_elements());
  EXPECT_EQ(partition.shard_elements(), alone.shard_elements());
  EXPECT_EQ(partition.bucket_count(), alone.bucket_count());
  EXPECT_EQ(partition.largest_bucket(), alone.largest_bucket());
  EXPECT_EQ(partition.BucketOf(alone.padded_elements() - 1), alone.bucket_count() - 1);
  EXPECT_EQ(partition.held_elements(), alone.padded_elements() + 10 * kUnit);
  EXPECT_EQ(partition.held_shard_elements(), partition.held_elements() / kWorld);
  for (int64_t at = 0; at < partition.held_elements(); ++at) {
    const ShardPlace place = partition.Locate(at);
    ASSERT_EQ(partition.FlatIndex(place), at);
    ASSERT_EQ(place.offset < partition.shard_elements(), at < partition.padded_elements());
    if (at >= alone.padded_elements()) continue;
    ASSERT_EQ(place, alone.Locate(at));
  }
  const Partition none = Partition::Create({}, kWorld, {32, 1000}, frozen).value();
  EXPECT_EQ(none.bucket_count(), 0);
  EXPECT_EQ(none.padded_elements(), 0);
  EXPECT_EQ(none.held_elements(), 10 * kUnit);
}

TEST(PartitionTest, AnEmptyModelHasNoBuckets) {
  const Partition partition = Make(0, 3, 64, 1);
  EXPECT_EQ(partition.bucket_count(), 0);
  EXPECT_EQ(partition.shard_elements(), 0);
}

TEST(PartitionTest, RefusesWhatCannotBe) {
  EXPECT_THAT(Partition::Create(10, 0, {}), StatusIs(kInvalid, HasSubstr("0 ranks")));
  EXPECT_THAT(Partition::Create(10, 2, {64, 0}), StatusIs(kInvalid, HasSubstr("bucket_size")));
  for (const int64_t chunk :
       {int64_t{-64}, int64_t{0}, int64_t{16}, int64_t{48}, kMaxTileChunk * 2}) {
    EXPECT_THAT(Partition::Create(10, 2, {chunk, 1}), StatusIs(kInvalid, HasSubstr("tile_chunk")));
  }
  const int64_t segments[] = {63, 64};
  EXPECT_THAT(Partition::Create(segments, 2, {}), StatusIs(kInvalid, HasSubstr("segment 0")));
  EXPECT_OK(Partition::Create(kMaxFlatElements - 64, 2, {kMaxTileChunk, 1}).status());
  EXPECT_THAT(Partition::Create(kMaxFlatElements - 63, 2, {}), StatusIs(kInvalid));
}

}  // namespace
}  // namespace rz
