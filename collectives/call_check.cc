#include "collectives/call_check.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "collectives/chunk_layout.h"

namespace rz {
namespace {

absl::Status Wrong(const Call& call, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("rank ", call.rank.value(), ", ",
                                                 std::string(NameOf(call.collective)), ": ", what));
}

// Where a buffer would lie in place: its offset in the other one, in elements, or -1 where there is
// no such place.
int64_t InPlaceOffset(const Call& call, const ChunkLayout& layout) {
  if (call.collective == Collective::kAllReduce) return 0;
  if (call.world == 1) return 0;
  return layout.tile_count() == 1 ? layout.Chunk(0, call.rank).offset : -1;
}

absl::Status CheckOverlap(const Call& call, const ChunkLayout& layout, size_t send_bytes,
                          size_t recv_bytes) {
  const auto send = reinterpret_cast<uintptr_t>(call.send);
  const auto recv = reinterpret_cast<uintptr_t>(call.recv);
  const bool overlap = send < recv + recv_bytes && recv < send + send_bytes;
  if (send_bytes == 0 || recv_bytes == 0 || !overlap) return absl::OkStatus();
  const int64_t offset = InPlaceOffset(call, layout);
  const size_t bytes = offset < 0 ? 0 : static_cast<size_t>(offset) * SizeOf(call.dtype);
  const bool gathers = call.collective == Collective::kAllGather;
  const bool in_place = offset >= 0 && (gathers ? send == recv + bytes : recv == send + bytes);
  if (in_place) return absl::OkStatus();
  if (offset < 0) {
    return Wrong(call, "send and recv overlap, and there is no in-place form for several tiles");
  }
  return Wrong(call, absl::StrCat("send and recv overlap; in place means ",
                                  gathers ? "send == recv + " : "recv == send + ", offset,
                                  " elements on this rank"));
}

}  // namespace

absl::Status CheckCall(const Call& call) {
  if (call.collective == Collective::kBarrier) return absl::OkStatus();
  if (call.count < 0) return Wrong(call, absl::StrCat("count ", call.count, " is negative"));
  if (call.tile_chunk < 0) {
    return Wrong(call, absl::StrCat("tile_chunk ", call.tile_chunk, " is negative"));
  }
  const int64_t size =
      static_cast<int64_t>(std::max(SizeOf(call.dtype), SizeOf(AccumulatorOf(call.dtype))));
  if (call.count > std::numeric_limits<int64_t>::max() / size) {
    return Wrong(call, absl::StrCat("the bytes of ", call.count, " ",
                                    std::string(NameOf(call.dtype)), " overflow 64 bits"));
  }
  if (call.root.value() < 0 || call.root.value() >= call.world) {
    return Wrong(call,
                 absl::StrCat("root ", call.root.value(), " is outside a world of ", call.world));
  }
  const ChunkLayout layout(call.count, call.world, call.tile_chunk);
  const size_t whole = static_cast<size_t>(call.count) * SizeOf(call.dtype);
  const size_t shard = static_cast<size_t>(layout.ShardCount(call.rank)) * SizeOf(call.dtype);
  const size_t send_bytes = call.collective == Collective::kAllGather ? shard : whole;
  const size_t recv_bytes = call.collective == Collective::kReduceScatter ? shard : whole;
  if (call.send == nullptr && send_bytes > 0) {
    return Wrong(call, absl::StrCat("the send buffer is null, ", send_bytes, " bytes are needed"));
  }
  if (call.recv == nullptr && recv_bytes > 0) {
    return Wrong(call,
                 absl::StrCat("the receive buffer is null, ", recv_bytes, " bytes are needed"));
  }
  if (call.collective == Collective::kBroadcast) return absl::OkStatus();
  return CheckOverlap(call, layout, send_bytes, recv_bytes);
}

}  // namespace rz
