#include "collectives/chunk_layout.h"

#include <algorithm>

namespace rz {

Range EvenSplit(int64_t count, int64_t parts, int64_t index) {
  const int64_t base = count / parts;
  const int64_t extra = count % parts;
  return {index * base + std::min(index, extra), base + (index < extra ? 1 : 0)};
}

ChunkLayout::ChunkLayout(int64_t count, int world, int64_t tile_chunk)
    : count_(count), world_(world), tile_chunk_(tile_chunk) {
  // tile_chunk > count / world says "not one whole tile" without a product that could overflow.
  if (tile_chunk == 0 || tile_chunk > count / world) {
    tile_count_ = count == 0 ? 0 : 1;
  } else {
    const int64_t tile = tile_chunk * world;
    tile_count_ = count / tile + (count % tile == 0 ? 0 : 1);
  }
}

Range ChunkLayout::Tile(int64_t tile) const {
  if (tile_count_ <= 1) return {0, count_};
  const int64_t size = tile_chunk_ * world_;
  return {tile * size, std::min(size, count_ - tile * size)};
}

Range ChunkLayout::Chunk(int64_t tile, Rank rank) const {
  const Range whole = Tile(tile);
  const Range part = EvenSplit(whole.count, world_, rank.value());
  return {whole.offset + part.offset, part.count};
}

int64_t ChunkLayout::ShardOffset(int64_t tile) const { return tile * tile_chunk_; }

int64_t ChunkLayout::ShardCount(Rank rank) const {
  if (tile_count_ == 0) return 0;
  const int64_t last = tile_count_ - 1;
  return ShardOffset(last) + Chunk(last, rank).count;
}

}  // namespace rz
