#include "optimizer/layout/partition.h"

#include <algorithm>

#include "absl/numeric/bits.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

int64_t CeilDivide(int64_t value, int64_t unit) { return value / unit + (value % unit != 0); }

}  // namespace

absl::StatusOr<Partition> Partition::Create(absl::Span<const int64_t> segments, int world,
                                            PartitionOptions options,
                                            absl::Span<const int64_t> frozen) {
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
  Partition partition(world, options);
  RZ_RETURN_IF_ERROR(partition.Append(segments));
  partition.padded_elements_ = partition.held_elements_;
  for (const Segment& segment : partition.segments_) {
    partition.largest_segment_ = std::max(partition.largest_segment_, segment.elements);
  }
  partition.tiles_per_bucket_ = std::clamp<int64_t>(
      CeilDivide(options.bucket_size, options.tile_chunk * world), 1,
      std::max<int64_t>(1, CeilDivide(partition.largest_segment_, options.tile_chunk * world)));
  for (Segment& segment : partition.segments_) {
    segment.first_bucket = partition.bucket_count_;
    partition.bucket_count_ += CeilDivide(segment.chunks.tile_count(), partition.tiles_per_bucket_);
  }
  const size_t trained = partition.segments_.size();
  RZ_RETURN_IF_ERROR(partition.Append(frozen));
  // No bucket is found in these.
  for (size_t i = trained; i < partition.segments_.size(); ++i) {
    partition.segments_[i].first_bucket = partition.bucket_count_;
  }
  return partition;
}

absl::Status Partition::Append(absl::Span<const int64_t> segments) {
  const int64_t unit = kAlignmentElements * world_;
  for (size_t i = 0; i < segments.size(); ++i) {
    int64_t elements = segments[i];
    if (elements < 0 || elements > kMaxFlatElements - unit - held_elements_) {
      return absl::InvalidArgumentError(absl::StrCat("a flat space of ", elements,
                                                     " elements among ", world_,
                                                     " ranks is outside 0 to ", kMaxFlatElements));
    }
    if (elements % unit != 0 && i + 1 < segments.size()) {
      return absl::InvalidArgumentError(absl::StrCat("segment ", i, " has ", elements,
                                                     " elements; it must be a multiple of ", unit));
    }
    elements = CeilDivide(elements, unit) * unit;
    if (elements == 0) continue;
    const ChunkLayout chunks(elements, world_, tile_chunk_);
    segments_.push_back({chunks, held_elements_, tile_count_, 0, elements});
    held_elements_ += elements;
    tile_count_ += chunks.tile_count();
  }
  return absl::OkStatus();
}

const Partition::Segment& Partition::Find(int64_t Segment::*first, int64_t index) const {
  return *(std::partition_point(segments_.begin(), segments_.end(),
                                [&](const Segment& segment) { return segment.*first <= index; }) -
           1);
}

Range Partition::Chunk(int64_t tile, Rank rank) const {
  const Segment& segment = Find(&Segment::first_tile, tile);
  const Range chunk = segment.chunks.Chunk(tile - segment.first_tile, rank);
  return {segment.flat_offset + chunk.offset, chunk.count};
}

int64_t Partition::ShardOffset(int64_t tile) const {
  const Segment& segment = Find(&Segment::first_tile, tile);
  return segment.shard_offset() + segment.chunks.ShardOffset(tile - segment.first_tile);
}

Bucket Partition::bucket(int64_t index) const {
  const Segment& segment = Find(&Segment::first_bucket, index);
  const int64_t first = (index - segment.first_bucket) * tiles_per_bucket_;
  Bucket bucket;
  bucket.index = index;
  bucket.first_tile = segment.first_tile + first;
  bucket.tile_count = std::min(tiles_per_bucket_, segment.chunks.tile_count() - first);
  const int64_t last_tile = bucket.first_tile + bucket.tile_count - 1;
  bucket.flat.offset = Chunk(bucket.first_tile, Rank(0)).offset;
  bucket.flat.count = Chunk(last_tile, Rank(world() - 1)).end() - bucket.flat.offset;
  bucket.shard.offset = ShardOffset(bucket.first_tile);
  bucket.shard.count = bucket.flat.count / world();
  return bucket;
}

int64_t Partition::BucketOf(int64_t flat_index) const {
  const Segment& segment = Find(&Segment::flat_offset, flat_index);
  return segment.first_bucket + (flat_index - segment.flat_offset) / bucket_elements();
}

std::string Partition::BucketRounding() const {
  if (bucket_elements() == wished_bucket_ || wished_bucket_ >= largest_segment_) return "";
  return absl::StrCat("reduce_bucket_size ", wished_bucket_, " rounds up to ", bucket_elements(),
                      " elements: buckets are whole tiles of ", tile_elements());
}

int64_t Partition::TileOf(int64_t flat_index) const {
  const Segment& segment = Find(&Segment::flat_offset, flat_index);
  return segment.first_tile + (flat_index - segment.flat_offset) / tile_elements();
}

ShardPlace Partition::Locate(int64_t flat_index) const {
  const int64_t tile = TileOf(flat_index);
  const Range first = Chunk(tile, Rank(0));
  const int64_t rank = (flat_index - first.offset) / first.count;
  const int64_t in_chunk = (flat_index - first.offset) % first.count;
  return ShardPlace{Rank(static_cast<int32_t>(rank)), ShardOffset(tile) + in_chunk};
}

int64_t Partition::FlatIndex(ShardPlace place) const {
  const int64_t flat = place.offset * world();  // of the same segment
  const Segment& segment = Find(&Segment::flat_offset, flat);
  const int64_t tile = segment.first_tile + (place.offset - segment.shard_offset()) / tile_chunk_;
  return Chunk(tile, place.rank).offset + place.offset - ShardOffset(tile);
}

}  // namespace rz
