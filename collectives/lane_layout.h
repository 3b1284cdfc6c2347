// LaneLayout: how a flat buffer is cut into lanes of blocks.
//
// Each tile of a ChunkLayout is cut crosswise: slice s of every rank's chunk of the tile, at most
// slice_elements of each, is one lane, and block r of the lane is rank r's part. So a lane is a
// small collective of its own, its blocks belong to the ranks that own the chunks, and neither
// slices nor lanes change who owns what. In a v variant the chunks are of any length, one tile of
// them, cut the same way.
#ifndef RINGZERO_COLLECTIVES_LANE_LAYOUT_H_
#define RINGZERO_COLLECTIVES_LANE_LAYOUT_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "collectives/chunk_layout.h"
#include "runtime/base/types.h"

namespace rz {

class LaneLayout {
 public:
  // Lanes are whole tiles.
  static constexpr int64_t kUnsliced = std::numeric_limits<int64_t>::max();

  // Where a lane lies.
  struct Position {
    int64_t tile = 0;
    int64_t begin = 0;  // elements of each chunk of the tile before it
  };

  // slice_elements >= 1.
  LaneLayout(ChunkLayout chunks, int64_t slice_elements);

  // Rank r's chunk is [offsets[r], offsets[r + 1]): one offset more than there are ranks, from 0
  // on, never falling. They stay where they are; see Rebase.
  LaneLayout(absl::Span<const int64_t> offsets, int64_t slice_elements);

  // The offsets of a v variant (none: of chunks), and the same at another place.
  absl::Span<const int64_t> offsets() const { return offsets_; }
  void Rebase(absl::Span<const int64_t> offsets) { offsets_ = offsets; }

  int blocks() const { return blocks_; }
  int64_t count() const { return count_; }
  int64_t tile_count() const { return tile_count_; }
  int64_t lane_count() const { return lane_count_; }

  // Elements of the largest block of any lane, and of all blocks of the largest lane.
  int64_t largest_block() const { return largest_block_; }
  int64_t largest_lane() const;

  // Elements that belong to `rank`, over all lanes, and the most that belong to any.
  int64_t ShardCount(int32_t rank) const {
    return offsets_.empty() ? chunks_.ShardCount(Rank(rank)) : Chunk(0, rank).count;
  }
  int64_t largest_shard() const;

  // Every lane's blocks are of one length.
  bool has_equal_blocks() const;

  // lane < lane_count().
  Position At(int64_t lane) const {
    if (lane == 0) return {};
    const int64_t in_tile = lane % lanes_per_tile_;
    return {lane / lanes_per_tile_, in_tile == 0 ? 0 : in_tile * slice_elements_};
  }

  // Block of `rank`, as a range of the whole space; may be empty.
  Range Block(Position lane, int32_t rank) const {
    const Range chunk = Chunk(lane.tile, rank);
    return {chunk.offset + std::min(lane.begin, chunk.count), InSlice(lane, chunk.count)};
  }

  // Elements of the blocks [0, block) of the lane together; of all with block == blocks().
  int64_t ElementsBefore(Position lane, int32_t block) const;

  // Where the lane's own block stands in a shard.
  int64_t ShardOffset(Position lane) const { return chunks_.ShardOffset(lane.tile) + lane.begin; }

 private:
  Range Chunk(int64_t tile, int32_t rank) const {
    if (offsets_.empty()) return chunks_.Chunk(tile, Rank(rank));
    return {offsets_[rank], offsets_[rank + 1] - offsets_[rank]};
  }

  // Elements of a chunk of `chunk_count` that lie in the slice of `lane`.
  int64_t InSlice(Position lane, int64_t chunk_count) const {
    return std::min(slice_elements_, chunk_count - std::min(lane.begin, chunk_count));
  }

  ChunkLayout chunks_;
  absl::Span<const int64_t> offsets_;
  int64_t slice_elements_;
  int blocks_;
  int64_t count_;
  int64_t tile_count_;
  int64_t lanes_per_tile_ = 0;  // of every tile but the last
  int64_t lane_count_ = 0;
  int64_t largest_block_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_LANE_LAYOUT_H_
