// LaneLayout: how a flat buffer is cut into lanes of blocks.
//
// Each tile of a ChunkLayout is cut crosswise: slice s of every rank's chunk of the tile, at most
// slice_elements of each, is one lane, and block r of the lane is rank r's part. So a lane is a
// small collective of its own, its blocks belong to the ranks that own the chunks, and neither
// slices nor lanes change who owns what.
#ifndef RINGZERO_COLLECTIVES_LANE_LAYOUT_H_
#define RINGZERO_COLLECTIVES_LANE_LAYOUT_H_

#include <cstdint>

#include "collectives/chunk_layout.h"
#include "runtime/base/types.h"

namespace rz {

class LaneLayout {
 public:
  // Where a lane lies.
  struct Position {
    int64_t tile = 0;
    int64_t begin = 0;  // elements of each chunk of the tile before it
  };

  // slice_elements >= 1.
  LaneLayout(ChunkLayout chunks, int64_t slice_elements);

  const ChunkLayout& chunks() const { return chunks_; }
  int64_t lane_count() const { return lane_count_; }

  // Elements of the largest block of any lane.
  int64_t largest_block() const { return largest_block_; }

  // lane < lane_count().
  Position At(int64_t lane) const;

  // Block of `rank`, as a range of the whole space; may be empty.
  Range Block(Position lane, int32_t rank) const;

  // Where the lane's own block stands in a shard.
  int64_t ShardOffset(Position lane) const;

 private:
  ChunkLayout chunks_;
  int64_t slice_elements_;
  int64_t lanes_per_tile_ = 0;  // of every tile but the last
  int64_t lane_count_ = 0;
  int64_t largest_block_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_LANE_LAYOUT_H_
