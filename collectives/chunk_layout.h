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
  Range Chunk(int64_t tile, Rank rank) const;

  // Where that chunk stands in the rank's shard.
  int64_t ShardOffset(int64_t tile) const;

  // Elements of the rank's shard, over all tiles.
  int64_t ShardCount(Rank rank) const;

  friend bool operator==(const ChunkLayout&, const ChunkLayout&) = default;

 private:
  Range Tile(int64_t tile) const;

  int64_t count_;
  int world_;
  int64_t tile_chunk_;
  int64_t tile_count_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_CHUNK_LAYOUT_H_
