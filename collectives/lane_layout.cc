#include "collectives/lane_layout.h"

#include <algorithm>

namespace rz {
namespace {

int64_t DivideUp(int64_t a, int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

}  // namespace

LaneLayout::LaneLayout(ChunkLayout chunks, int64_t slice_elements)
    : chunks_(chunks),
      slice_elements_(slice_elements),
      blocks_(chunks.world()),
      count_(chunks.count()),
      tile_count_(chunks.tile_count()) {
  if (tile_count_ == 0) return;
  // The first rank's chunk is the largest of its tile, the first tile the largest of all.
  const int64_t largest_chunk = chunks_.Chunk(0, Rank(0)).count;
  lanes_per_tile_ = DivideUp(largest_chunk, slice_elements_);
  lane_count_ = (tile_count_ - 1) * lanes_per_tile_ +
                DivideUp(chunks_.Chunk(tile_count_ - 1, Rank(0)).count, slice_elements_);
  largest_block_ = std::min(largest_chunk, slice_elements_);
}

LaneLayout::LaneLayout(absl::Span<const int64_t> offsets, int64_t slice_elements)
    : chunks_(0, 1, 0),
      offsets_(offsets),
      slice_elements_(slice_elements),
      blocks_(static_cast<int>(offsets.size()) - 1),
      count_(offsets.back()),
      tile_count_(count_ == 0 ? 0 : 1) {
  const int64_t largest_chunk = largest_shard();
  lanes_per_tile_ = lane_count_ = DivideUp(largest_chunk, slice_elements_);
  largest_block_ = std::min(largest_chunk, slice_elements_);
}

int64_t LaneLayout::largest_lane() const {
  return lane_count_ == 0 ? 0 : ElementsBefore({}, blocks_);
}

int64_t LaneLayout::largest_shard() const {
  if (offsets_.empty()) return chunks_.ShardCount(Rank(0));
  int64_t largest = 0;
  for (int r = 0; r < blocks_; ++r) largest = std::max(largest, ShardCount(r));
  return largest;
}

bool LaneLayout::has_equal_blocks() const {
  if (offsets_.empty()) return count_ % blocks_ == 0;
  for (int r = 1; r < blocks_; ++r) {
    if (Chunk(0, r).count != Chunk(0, 0).count) return false;
  }
  return true;
}

int64_t LaneLayout::ElementsBefore(Position lane, int32_t block) const {
  if (offsets_.empty()) {
    // In an even split the first ranks' chunks are as the first, the others' as the last.
    const Range first = Chunk(lane.tile, 0);
    const Range last = Chunk(lane.tile, blocks_ - 1);
    const int64_t larger = std::min<int64_t>(block, (last.end() - first.offset) % blocks_);
    return larger * InSlice(lane, first.count) + (block - larger) * InSlice(lane, last.count);
  }
  if (lane_count_ == 1) return offsets_[block] - offsets_[0];
  int64_t elements = 0;
  for (int32_t b = 0; b < block; ++b) elements += Block(lane, b).count;
  return elements;
}

}  // namespace rz
