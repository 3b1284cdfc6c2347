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
  int64_t largest_chunk = 0;
  for (int r = 0; r < blocks_; ++r) largest_chunk = std::max(largest_chunk, Chunk(0, r).count);
  lanes_per_tile_ = lane_count_ = DivideUp(largest_chunk, slice_elements_);
  largest_block_ = std::min(largest_chunk, slice_elements_);
}

int64_t LaneLayout::largest_lane() const {
  return lane_count_ == 0 ? 0 : ElementsBefore({}, blocks_);
}

bool LaneLayout::has_equal_blocks() const {
  if (offsets_.empty()) return count_ % blocks_ == 0;
  for (int r = 1; r < blocks_; ++r) {
    if (Chunk(0, r).count != Chunk(0, 0).count) return false;
  }
  return true;
}

LaneLayout::Position LaneLayout::At(int64_t lane) const {
  const int64_t in_tile = lane % lanes_per_tile_;
  return {lane / lanes_per_tile_, in_tile == 0 ? 0 : in_tile * slice_elements_};
}

Range LaneLayout::Chunk(int64_t tile, int32_t rank) const {
  if (offsets_.empty()) return chunks_.Chunk(tile, Rank(rank));
  return {offsets_[rank], offsets_[rank + 1] - offsets_[rank]};
}

Range LaneLayout::Block(Position lane, int32_t rank) const {
  const Range chunk = Chunk(lane.tile, rank);
  const int64_t begin = std::min(lane.begin, chunk.count);
  return {chunk.offset + begin, std::min(slice_elements_, chunk.count - begin)};
}

int64_t LaneLayout::ElementsBefore(Position lane, int32_t block) const {
  if (lane.begin == 0 && slice_elements_ == kUnsliced) {
    const int64_t begin = Chunk(lane.tile, 0).offset;
    return (block == blocks_ ? Chunk(lane.tile, block - 1).end() : Chunk(lane.tile, block).offset) -
           begin;
  }
  int64_t elements = 0;
  for (int32_t b = 0; b < block; ++b) elements += Block(lane, b).count;
  return elements;
}

int64_t LaneLayout::ShardOffset(Position lane) const {
  return chunks_.ShardOffset(lane.tile) + lane.begin;
}

}  // namespace rz
