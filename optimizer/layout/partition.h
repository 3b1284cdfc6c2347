// Partition: which rank owns which part of the flat space, and which parts travel together.
//
// Ownership is ChunkLayout's (tiles of world * tile_chunk elements, chunk r of each tile is rank
// r's) over the flat space padded up to a multiple of world * kAlignmentElements. So the last tile
// divides evenly too, every rank's shard has the same size, and every chunk is aligned. A bucket is
// a run of whole tiles: its chunks are the tiles' chunks, whatever the bucket size.
//
//   flat space   |<------- bucket 0 ------->|<--- bucket 1 --->|
//                | tile 0     | tile 1      | tile 2   | t 3   |
//   world 2      | 0    | 1   | 0    | 1    | 0   | 1  | 0 | 1 |
#ifndef RINGZERO_OPTIMIZER_LAYOUT_PARTITION_H_
#define RINGZERO_OPTIMIZER_LAYOUT_PARTITION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/chunk_layout.h"
#include "optimizer/layout/limits.h"
#include "runtime/base/types.h"

namespace rz {

struct PartitionOptions {
  // Elements of one rank's chunk in a tile: a power of two, kAlignmentElements to kMaxTileChunk.
  // Part of the ownership: another value is another order of summation.
  int64_t tile_chunk = kDefaultTileChunk;

  // Elements of a bucket wished for; rounded up to whole tiles and down to the model.
  int64_t bucket_size = 500'000'000;
};

// A run of whole tiles.
struct Bucket {
  int64_t first_tile = 0;
  int64_t tile_count = 0;
  Range flat;   // in the padded flat space
  Range shard;  // in every rank's shard
};

// Where a flat element is kept.
struct ShardPlace {
  Rank rank;
  int64_t offset = 0;  // in that rank's shard

  friend bool operator==(const ShardPlace&, const ShardPlace&) = default;
};

class Partition {
 public:
  // Cuts a flat space of flat_elements among `world` ranks.
  //   InvalidArgument  world < 1, bucket_size < 1, a tile_chunk that is none; a space above
  //                    kMaxFlatElements with its padding
  static absl::StatusOr<Partition> Create(int64_t flat_elements, int world,
                                          PartitionOptions options);

  int world() const { return chunks_.world(); }

  // The flat space with its padding at the end.
  int64_t padded_elements() const { return chunks_.count(); }

  // Elements of each rank's shard.
  int64_t shard_elements() const { return chunks_.count() / chunks_.world(); }

  const ChunkLayout& chunks() const { return chunks_; }

  int64_t bucket_count() const;
  Bucket bucket(int64_t index) const;

  // Elements of a full bucket, as rounded.
  int64_t bucket_elements() const { return tiles_per_bucket_ * tile_elements(); }

  // What rounding did to the wished bucket size, as a sentence; empty where it changed nothing or
  // only clamped to the model.
  std::string BucketRounding() const;

  // 0 <= flat_index < padded_elements(), for both.
  int64_t TileOf(int64_t flat_index) const { return flat_index / tile_elements(); }
  ShardPlace Locate(int64_t flat_index) const;

  // The inverse; 0 <= offset < shard_elements().
  int64_t FlatIndex(ShardPlace place) const;

 private:
  Partition(ChunkLayout chunks, int64_t wished_bucket, int64_t tiles_per_bucket)
      : chunks_(chunks), wished_bucket_(wished_bucket), tiles_per_bucket_(tiles_per_bucket) {}

  int64_t tile_elements() const { return chunks_.tile_chunk() * chunks_.world(); }

  ChunkLayout chunks_;
  int64_t wished_bucket_;
  int64_t tiles_per_bucket_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_LAYOUT_PARTITION_H_
