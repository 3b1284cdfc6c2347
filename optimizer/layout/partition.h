// Partition: which rank owns which part of the flat space, and which parts travel together.
//
// The flat space is made of segments (one a unit of parameters, see FlatLayout), each a multiple of
// world * kAlignmentElements. In a segment ownership is ChunkLayout's: tiles of world * tile_chunk
// elements, chunk r of each is rank r's. So the last tile of a segment divides evenly too, every
// rank's shard has the same size, and every chunk is aligned. A bucket is a run of whole tiles of
// one segment: its chunks are the tiles' chunks, whatever the bucket size.
//
//   segments     |<------------ segment 0 ------------->|<-- segment 1 -->|
//   buckets      |<------- bucket 0 ------->|<--- 1 --->|<--- bucket 2 -->|
//                | tile 0     | tile 1      | t 2       | tile 3    | t 4 |
//   world 2      | 0    | 1   | 0    | 1    | 0   | 1   | 0   | 1   | 0|1 |
//
// Segments of frozen parameters follow those that are trained. They are owned alike, behind the
// trained part of each shard, but are in no bucket, for nothing of them is reduced.
#ifndef RINGZERO_OPTIMIZER_LAYOUT_PARTITION_H_
#define RINGZERO_OPTIMIZER_LAYOUT_PARTITION_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/chunk_layout.h"
#include "optimizer/layout/limits.h"
#include "runtime/base/types.h"

namespace rz {

struct PartitionOptions {
  // Elements of one rank's chunk in a tile: a power of two, kAlignmentElements to kMaxTileChunk.
  // Part of the ownership: another value is another order of summation.
  int64_t tile_chunk = kDefaultTileChunk;

  // Elements of a bucket wished for; rounded up to whole tiles and down to a segment.
  int64_t bucket_size = 500'000'000;
};

// A run of whole tiles of one segment.
struct Bucket {
  int64_t index = 0;
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
  // Cuts a flat space among `world` ranks. `segments` are their elements; all but the last are
  // multiples of world * kAlignmentElements, and the last is padded to one; so are those of
  // `frozen`, which come behind. Empty ones are allowed.
  //   InvalidArgument  world < 1, bucket_size < 1, a tile_chunk that is none, a segment that is not
  //                    such a multiple; a space above kMaxFlatElements with its padding
  static absl::StatusOr<Partition> Create(absl::Span<const int64_t> segments, int world,
                                          PartitionOptions options,
                                          absl::Span<const int64_t> frozen = {});

  // Of one segment.
  static absl::StatusOr<Partition> Create(int64_t flat_elements, int world,
                                          PartitionOptions options) {
    return Create({&flat_elements, 1}, world, options);
  }

  int world() const { return world_; }
  int64_t tile_chunk() const { return tile_chunk_; }

  // The trained part of the flat space with its padding at the end, and that with the frozen part.
  int64_t padded_elements() const { return padded_elements_; }
  int64_t held_elements() const { return held_elements_; }

  // Elements of each rank's shard, of the trained and of both parts.
  int64_t shard_elements() const { return padded_elements_ / world_; }
  int64_t held_shard_elements() const { return held_elements_ / world_; }

  // Tiles of all segments, in flat order.
  int64_t tile_count() const { return tile_count_; }

  // Chunk of `rank` in `tile`, in the flat space, and where it stands in that rank's shard.
  Range Chunk(int64_t tile, Rank rank) const;
  int64_t ShardOffset(int64_t tile) const;

  int64_t bucket_count() const { return bucket_count_; }
  Bucket bucket(int64_t index) const;

  // The bucket that holds a flat element; 0 <= flat_index < padded_elements().
  int64_t BucketOf(int64_t flat_index) const;

  // Elements of a full bucket, as rounded; and of the largest there is.
  int64_t bucket_elements() const { return tiles_per_bucket_ * tile_elements(); }
  int64_t largest_bucket() const { return std::min(bucket_elements(), largest_segment_); }

  // What rounding did to the wished bucket size, as a sentence; empty where it changed nothing or
  // only clamped to the model.
  std::string BucketRounding() const;

  // 0 <= flat_index < held_elements(), for both.
  int64_t TileOf(int64_t flat_index) const;
  ShardPlace Locate(int64_t flat_index) const;

  // The inverse; 0 <= offset < held_shard_elements().
  int64_t FlatIndex(ShardPlace place) const;

 private:
  struct Segment {
    ChunkLayout chunks;
    int64_t flat_offset;
    int64_t first_tile;
    int64_t first_bucket;
    int64_t elements;

    int64_t shard_offset() const { return flat_offset / chunks.world(); }
  };

  Partition(int world, PartitionOptions options)
      : world_(world), tile_chunk_(options.tile_chunk), wished_bucket_(options.bucket_size) {}

  int64_t tile_elements() const { return tile_chunk_ * world_; }

  absl::Status Append(absl::Span<const int64_t> segments);

  // The last segment whose `first` is at most `index`.
  const Segment& Find(int64_t Segment::*first, int64_t index) const;

  int world_;
  int64_t tile_chunk_;
  int64_t wished_bucket_;
  std::vector<Segment> segments_;  // those that are not empty
  int64_t padded_elements_ = 0;
  int64_t held_elements_ = 0;
  int64_t tile_count_ = 0;
  int64_t bucket_count_ = 0;
  int64_t tiles_per_bucket_ = 1;
  int64_t largest_segment_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_LAYOUT_PARTITION_H_
