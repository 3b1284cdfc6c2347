#include "collectives/chunk_layout.h"

#include <algorithm>

namespace rz {

Range EvenSplit(int64_t count, int64_t parts, int64_t index) {
  const int64_t base = count / parts;
  const int64_t extra = count % parts;
  return {index * base + std::min(index, extra), base + (index < extra ? 1 : 0)};
}

ChunkLayout::ChunkLayout(int64_t count, int world, int64_t tile_chunk)
    : count_(count),
      world_(world),
      tile_chunk_(tile_chunk),
      base_(count / world),
      extra_(count % world) {
  // tile_chunk > base_ says "not one whole tile" without a product that could overflow.
  if (tile_chunk == 0 || tile_chunk > base_) {
    tile_count_ = count == 0 ? 0 : 1;
  } else {
    const int64_t tile = tile_chunk * world;
    tile_count_ = count / tile + (count % tile == 0 ? 0 : 1);
  }
}

Range ChunkLayout::Tile(int64_t tile) const {
  const int64_t size = tile_chunk_ * world_;
  return {tile * size, std::min(size, count_ - tile * size)};
}

Range ChunkLayout::ChunkOfTile(int64_t tile, Rank rank) const {
  const Range whole = Tile(tile);
  const Range part = EvenSplit(whole.count, world_, rank.value());
  return {whole.offset + part.offset, part.count};
}

}  // namespace rz
