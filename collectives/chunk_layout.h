// ChunkLayout: which rank owns which elements of a flat buffer.
//
// The space [0, count) is cut into tiles of world * tile_chunk elements; in each tile chunk r, of
// tile_chunk elements, belongs to rank r. The last tile may be smaller: its R elements are split
// evenly, the first R % world ranks get one more. tile_chunk == 0 means one tile of everything: the
// even split. A rank's shard is its chunks in order of tiles, packed.
//
//   count 23, world 2, tile_chunk 5:  |0 0 0 0 0 1 1 1 1 1|0 0 0 0 0 1 1 1 1 1|0 0 1|
//                                      shard of rank 0: 5 + 5 + 2, of rank 1: 5 + 5 + 1
//
// Ownership depends on nothing else: not on buckets, slices, algorithm or stage.
#ifndef RINGZERO_COLLECTIVES_CHUNK_LAYOUT_H_
#define RINGZERO_COLLECTIVES_CHUNK_LAYOUT_H_

#include <algorithm>
#include <cstdint>

#include "runtime/base/types.h"

namespace rz {

// A run of elements.
struct Range {
  int64_t offset = 0;
  int64_t count = 0;

  int64_t end() const { return offset + count; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Part `index` of an even split of [0, count) into `parts`: the first count % parts get one more.
Range EvenSplit(int64_t count, int64_t parts, int64_t index);

class ChunkLayout {
 public:
  // count >= 0, world >= 1, tile_chunk >= 0.
  ChunkLayout(int64_t count, int world, int64_t tile_chunk);

  int64_t count() const { return count_; }
  int world() const { return world_; }
  int64_t tile_chunk() const { return tile_chunk_; }

  // Tiles, counting a smaller last one; 0 for an empty space.
  int64_t tile_count() const { return tile_count_; }

  // Chunk of `rank` in `tile`, as a range of the whole space.
  Range Chunk(int64_t tile, Rank rank) const {
    if (tile_count_ > 1) return ChunkOfTile(tile, rank);
    const int64_t index = rank.value();
    return {index * base_ + std::min(index, extra_), base_ + (index < extra_ ? 1 : 0)};
  }

  // Where that chunk stands in the rank's shard.
  int64_t ShardOffset(int64_t tile) const { return tile * tile_chunk_; }

  // Elements of the rank's shard, over all tiles.
  int64_t ShardCount(Rank rank) const {
    if (tile_count_ == 0) return 0;
    const int64_t last = tile_count_ - 1;
    return ShardOffset(last) + Chunk(last, rank).count;
  }

  friend bool operator==(const ChunkLayout&, const ChunkLayout&) = default;

 private:
  // Of several.
  Range Tile(int64_t tile) const;
  Range ChunkOfTile(int64_t tile, Rank rank) const;

  int64_t count_;
  int world_;
  int64_t tile_chunk_;
  int64_t tile_count_;
  // Even split of a single tile, divided once: small calls ask for their chunks again and again.
  int64_t base_;
  int64_t extra_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_CHUNK_LAYOUT_H_
