#include "optimizer/layout/partition.h"

#include <algorithm>

#include "absl/numeric/bits.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rz {
namespace {

int64_t CeilDivide(int64_t value, int64_t unit) { return value / unit + (value % unit != 0); }

}  // namespace

absl::StatusOr<Partition> Partition::Create(int64_t flat_elements, int world,
                                            PartitionOptions options) {
  if (world < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot partition among ", world, " ranks; at least 1 is needed"));
  }
  if (options.bucket_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("reduce_bucket_size is ", options.bucket_size,
                                                   "; it counts elements and must be at least 1"));
  }
  if (options.tile_chunk < kAlignmentElements || options.tile_chunk > kMaxTileChunk ||
      !absl::has_single_bit(static_cast<uint64_t>(options.tile_chunk))) {
    return absl::InvalidArgumentError(absl::StrCat("tile_chunk is ", options.tile_chunk,
                                                   "; it must be a power of two from ",
                                                   kAlignmentElements, " to ", kMaxTileChunk));
  }
  const int64_t unit = kAlignmentElements * world;
  if (flat_elements < 0 || flat_elements > kMaxFlatElements - unit) {
    return absl::InvalidArgumentError(absl::StrCat("a flat space of ", flat_elements,
                                                   " elements among ", world,
                                                   " ranks is outside 0 to ", kMaxFlatElements));
  }
  const ChunkLayout chunks(CeilDivide(flat_elements, unit) * unit, world, options.tile_chunk);
  const int64_t tiles = CeilDivide(options.bucket_size, options.tile_chunk * world);
  return Partition(chunks, options.bucket_size,
                   std::clamp<int64_t>(tiles, 1, std::max<int64_t>(1, chunks.tile_count())));
}

int64_t Partition::bucket_count() const {
  return CeilDivide(chunks_.tile_count(), tiles_per_bucket_);
}

Bucket Partition::bucket(int64_t index) const {
  Bucket bucket;
  bucket.first_tile = index * tiles_per_bucket_;
  bucket.tile_count = std::min(tiles_per_bucket_, chunks_.tile_count() - bucket.first_tile);
  const int64_t last_tile = bucket.first_tile + bucket.tile_count - 1;
  bucket.flat.offset = chunks_.Chunk(bucket.first_tile, Rank(0)).offset;
  bucket.flat.count = chunks_.Chunk(last_tile, Rank(world() - 1)).end() - bucket.flat.offset;
  bucket.shard.offset = chunks_.ShardOffset(bucket.first_tile);
  bucket.shard.count = bucket.flat.count / world();
  return bucket;
}

std::string Partition::BucketRounding() const {
  if (bucket_elements() == wished_bucket_ || wished_bucket_ >= padded_elements()) return "";
  return absl::StrCat("reduce_bucket_size ", wished_bucket_, " rounds up to ", bucket_elements(),
                      " elements: buckets are whole tiles of ", tile_elements());
}

ShardPlace Partition::Locate(int64_t flat_index) const {
  const int64_t tile = TileOf(flat_index);
  const Range first = chunks_.Chunk(tile, Rank(0));
  const int64_t rank = (flat_index - first.offset) / first.count;
  const int64_t in_chunk = (flat_index - first.offset) % first.count;
  return ShardPlace{Rank(static_cast<int32_t>(rank)), chunks_.ShardOffset(tile) + in_chunk};
}

int64_t Partition::FlatIndex(ShardPlace place) const {
  const int64_t tile = place.offset / chunks_.tile_chunk();
  return chunks_.Chunk(tile, place.rank).offset + place.offset - chunks_.ShardOffset(tile);
}

}  // namespace rz
