#include "collectives/lane_layout.h"

#include <algorithm>

namespace rz {
namespace {

int64_t DivideUp(int64_t a, int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

}  // namespace

LaneLayout::LaneLayout(ChunkLayout chunks, int64_t slice_elements)
    : chunks_(chunks), slice_elements_(slice_elements) {
  const int64_t tiles = chunks_.tile_count();
  if (tiles == 0) return;
  // The first rank's chunk is the largest of its tile, the first tile the largest of all.
  const int64_t largest_chunk = chunks_.Chunk(0, Rank(0)).count;
  lanes_per_tile_ = DivideUp(largest_chunk, slice_elements_);
  lane_count_ = (tiles - 1) * lanes_per_tile_ +
                DivideUp(chunks_.Chunk(tiles - 1, Rank(0)).count, slice_elements_);
  largest_block_ = std::min(largest_chunk, slice_elements_);
}

LaneLayout::Position LaneLayout::At(int64_t lane) const {
  return {lane / lanes_per_tile_, (lane % lanes_per_tile_) * slice_elements_};
}

Range LaneLayout::Block(Position lane, int32_t rank) const {
  const Range chunk = chunks_.Chunk(lane.tile, Rank(rank));
  const int64_t begin = std::min(lane.begin, chunk.count);
  return {chunk.offset + begin, std::min(slice_elements_, chunk.count - begin)};
}

int64_t LaneLayout::ShardOffset(Position lane) const {
  return chunks_.ShardOffset(lane.tile) + lane.begin;
}

}  // namespace rz
