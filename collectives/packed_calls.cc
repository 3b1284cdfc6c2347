// Two calls of 5 and 3 elements on two ranks, packed: |a0 a1 a2 b0 b1|a3 a4 b2|.
#include "collectives/packed_calls.h"

#include <algorithm>
#include <cstring>

#include "collectives/chunk_layout.h"
#include "collectives/limits.h"
#include "runtime/base/status_macros.h"

namespace rz {

bool IsPackable(const Call& call, int world) {
  switch (call.collective) {
    case Collective::kAllReduce:
    case Collective::kAllGather:
    case Collective::kBroadcast:
      break;
    default:
      return false;
  }
  const int64_t bytes = call.count * static_cast<int64_t>(SizeOf(call.dtype));
  return !call.has_counts && call.options.kernel == nullptr && call.count > 0 &&
         bytes <= kMaxPackedCall &&
         ChunkLayout(call.count, world, call.options.tile_chunk).tile_count() == 1;
}

bool ArePackable(const Call& a, const Call& b) {
  return a.collective == b.collective && a.dtype == b.dtype && a.op == b.op && a.root == b.root &&
         a.options.numeric_mode == b.options.numeric_mode &&
         a.options.function == b.options.function &&
         a.options.premul.floating == b.options.premul.floating &&
         a.options.premul.integer == b.options.premul.integer;
}

template <typename F>
void PackedCalls::ForEachPiece(F f) const {
  const bool one_block = call_.collective == Collective::kBroadcast;
  const size_t size = SizeOf(call_.dtype);
  size_t at = 0;
  for (int r = 0; r < (one_block ? 1 : world_); ++r) {
    for (const Call& call : calls_) {
      const Range piece = EvenSplit(call.count, one_block ? 1 : world_, r);
      const size_t bytes = static_cast<size_t>(piece.count) * size;
      if (bytes > 0) f(call, r, static_cast<size_t>(piece.offset) * size, bytes, at);
      at += bytes;
    }
  }
}

absl::Status PackedCalls::Pack(absl::Span<const Call> calls, Rank rank, int world) {
  calls_.assign(calls.begin(), calls.end());
  rank_ = rank;
  world_ = world;
  call_ = calls.front();
  call_.options.tile_chunk = 0;
  call_.count = 0;
  for (const Call& call : calls_) call_.count += call.count;
  const size_t size = SizeOf(call_.dtype);
  const size_t bytes = static_cast<size_t>(call_.count) * size;
  if (memory_.size() < bytes) {
    RZ_ASSIGN_OR_RETURN(
        memory_, Buffer::Allocate(static_cast<size_t>(kMaxPackedTotal), MemoryTag::kScratch));
  }
  counts_.assign(static_cast<size_t>(world), 0);
  const bool gathers = call_.collective == Collective::kAllGather;
  size_t own_at = 0;
  ForEachPiece([&](const Call& call, int r, size_t from, size_t piece, size_t at) {
    counts_[static_cast<size_t>(r)] += static_cast<int64_t>(piece / size);
    if (r < rank_.value()) own_at = at + piece;
    if (gathers && r != rank_.value()) return;
    if (call.collective == Collective::kBroadcast && call.root != rank_) return;
    // What a rank gives to all_gather is its chunk alone.
    const auto* source = static_cast<const std::byte*>(call.send) + (gathers ? 0 : from);
    std::memcpy(memory_.data() + at, source, piece);
  });
  call_.recv = memory_.data();
  call_.send = memory_.data() + (gathers ? own_at : 0);
  if (call_.collective != Collective::kBroadcast) {
    call_.has_counts = true;
    call_.counts = counts_;
  }
  return absl::OkStatus();
}

void PackedCalls::Unpack() const {
  if (call_.collective == Collective::kBroadcast && call_.root == rank_) return;
  ForEachPiece([&](const Call& call, int, size_t to, size_t piece, size_t at) {
    std::memcpy(static_cast<std::byte*>(call.recv) + to, memory_.data() + at, piece);
  });
}

}  // namespace rz
