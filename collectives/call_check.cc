// What each rank reads and writes, in elements, n being the count and s_r rank r's shard of it:
//
//   all_reduce       n, n       in place: recv == send
//   reduce           n, n       likewise; only the root writes
//   broadcast        one buffer of n
//   reduce_scatter   n, s_r     recv == send + offset of its chunk
//   all_gather       s_r, n     send == recv + offset of its chunk
//   gather           s_r, n     likewise on the root, which alone writes
//   scatter          n, s_r     recv == send + offset of its chunk on the root, which alone reads n
//   all_to_all       world * n, world * n   never in place
//
// A reduce_scatter with a shard kernel writes nothing.
#include "collectives/call_check.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "absl/strings/str_cat.h"
#include "collectives/chunk_layout.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr int64_t kNowhere = -1;

int64_t ElementSize(DType dtype) {
  return static_cast<int64_t>(std::max(SizeOf(dtype), SizeOf(AccumulatorOf(dtype))));
}

std::string NameOfCall(const Call& call) {
  return absl::StrCat(std::string(NameOf(call.collective)), call.has_counts ? "_v" : "");
}

class Check {
 public:
  Check(const Call& call, Rank rank, int world) : call_(call), rank_(rank), world_(world) {}

  absl::Status Run();

 private:
  struct Extent {
    int64_t send = 0;
    int64_t recv = 0;
    int64_t in_place = kNowhere;  // where the smaller buffer lies in the larger one
    bool send_is_smaller = false;
  };

  absl::Status Wrong(const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank_.value(), ", ", NameOfCall(call_), ": ", what));
  }
  std::string TypeName() const { return std::string(NameOf(call_.dtype)); }

  absl::Status CheckNumbers() const;
  absl::Status CheckFunction() const;
  absl::Status CheckCounts(const char* name, absl::Span<const int64_t> counts) const;
  absl::Status CheckVariant() const;
  Extent EvenExtent() const;
  // Of the calls with shards.
  Extent ShardExtent() const;
  Extent VariantExtent() const;
  absl::Status CheckBuffers(const Extent& extent) const;
  absl::Status CheckOverlap(const Extent& extent) const;

  const Call& call_;
  const Rank rank_;
  const int world_;
};

absl::Status Check::CheckNumbers() const {
  if (HasRoot(call_.collective) && (call_.root.value() < 0 || call_.root.value() >= world_)) {
    return Wrong(absl::StrCat("root ", call_.root.value(), " is outside a world of ", world_));
  }
  if (call_.options.tile_chunk < 0) {
    return Wrong(absl::StrCat("tile_chunk ", call_.options.tile_chunk, " is negative"));
  }
  if (IsReduction(call_.collective)) RZ_RETURN_IF_ERROR(CheckFunction());
  if (call_.options.kernel != nullptr &&
      (call_.has_counts || (call_.collective != Collective::kAllReduce &&
                            call_.collective != Collective::kReduceScatter))) {
    return Wrong("a shard kernel is run in all_reduce and reduce_scatter alone");
  }
  if (call_.has_counts) return CheckVariant();
  if (call_.count < 0) return Wrong(absl::StrCat("count ", call_.count, " is negative"));
  const int64_t copies = call_.collective == Collective::kAllToAll ? world_ : 1;
  int64_t bytes;
  if (__builtin_mul_overflow(call_.count, ElementSize(call_.dtype) * copies, &bytes)) {
    return Wrong(absl::StrCat("the bytes of ", call_.count, " ", TypeName(),
                              copies == 1 ? "" : " for each rank", " overflow 64 bits"));
  }
  return absl::OkStatus();
}

absl::Status Check::CheckFunction() const {
  const bool has_function = call_.options.function != nullptr;
  if ((call_.op == ReduceOp::kFunction) == has_function) return absl::OkStatus();
  return Wrong(has_function ? absl::StrCat("a function is given, and the op is ",
                                           std::string(NameOf(call_.op)))
                            : "the op is a function, and none is given");
}

absl::Status Check::CheckCounts(const char* name, absl::Span<const int64_t> counts) const {
  if (counts.size() != static_cast<size_t>(world_)) {
    return Wrong(absl::StrCat(name, " has ", counts.size(), " entries for a world of ", world_));
  }
  int64_t left = std::numeric_limits<int64_t>::max() / ElementSize(call_.dtype);
  for (size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] < 0) return Wrong(absl::StrCat(name, "[", r, "] is ", counts[r]));
    if (counts[r] > left) {
      return Wrong(
          absl::StrCat("the bytes of ", name, " (", TypeName(), ") overflow 64 bits at entry ", r));
    }
    left -= counts[r];
  }
  return absl::OkStatus();
}

absl::Status Check::CheckVariant() const {
  if (!HasVariant(call_.collective)) return Wrong("there is no v variant of it");
  if (call_.options.tile_chunk != 0) return Wrong("a v variant has no tiles: leave tile_chunk 0");
  const bool exchanges = call_.collective == Collective::kAllToAll;
  RZ_RETURN_IF_ERROR(CheckCounts(exchanges ? "send_counts" : "counts", call_.counts));
  if (!exchanges) return absl::OkStatus();
  RZ_RETURN_IF_ERROR(CheckCounts("recv_counts", call_.recv_counts));
  const int64_t sent = call_.counts[rank_.value()];
  const int64_t received = call_.recv_counts[rank_.value()];
  if (sent == received) return absl::OkStatus();
  return Wrong(absl::StrCat("this rank sends itself ", sent, " elements and expects ", received));
}

Check::Extent Check::EvenExtent() const {
  const bool is_root = rank_ == call_.root;
  switch (call_.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
      return {call_.count, call_.count, 0};
    case Collective::kReduce:
      return {call_.count, is_root ? call_.count : 0, 0};
    case Collective::kAllToAll:
      return {call_.count * world_, call_.count * world_, kNowhere};
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kScatter:
      return ShardExtent();
    case Collective::kBarrier:
      return {};
  }
  return {};
}

Check::Extent Check::ShardExtent() const {
  const ChunkLayout layout(call_.count, world_, call_.options.tile_chunk);
  const int64_t shard = layout.ShardCount(rank_);
  const bool is_root = rank_ == call_.root;
  int64_t own = kNowhere;
  if (layout.tile_count() <= 1 || world_ == 1) {
    own = layout.tile_count() == 1 ? layout.Chunk(0, rank_).offset : 0;
  }
  switch (call_.collective) {
    case Collective::kReduceScatter:
      return {call_.count, call_.options.kernel != nullptr ? 0 : shard, own};
    case Collective::kAllGather:
      return {shard, call_.count, own, true};
    case Collective::kGather:
      return {shard, is_root ? call_.count : 0, own, true};
    default:  // scatter
      return {is_root ? call_.count : 0, shard, own};
  }
}

Check::Extent Check::VariantExtent() const {
  const auto sum = [](absl::Span<const int64_t> counts) {
    int64_t total = 0;
    for (int64_t count : counts) total += count;
    return total;
  };
  const int64_t total = sum(call_.counts);
  const size_t self = static_cast<size_t>(rank_.value());
  const int64_t shard = call_.counts[self];
  const int64_t own = sum(call_.counts.first(self));
  switch (call_.collective) {
    case Collective::kReduceScatter:
      return {total, shard, own};
    case Collective::kAllGather:
      return {shard, total, own, true};
    default:
      return {total, sum(call_.recv_counts), kNowhere};
  }
}

absl::Status Check::CheckBuffers(const Extent& extent) const {
  const int64_t size = static_cast<int64_t>(SizeOf(call_.dtype));
  if (call_.send == nullptr && extent.send > 0) {
    return Wrong(
        absl::StrCat("the send buffer is null, ", extent.send * size, " bytes are needed"));
  }
  if (call_.recv == nullptr && extent.recv > 0) {
    return Wrong(
        absl::StrCat("the receive buffer is null, ", extent.recv * size, " bytes are needed"));
  }
  return absl::OkStatus();
}

absl::Status Check::CheckOverlap(const Extent& extent) const {
  if (call_.collective == Collective::kBroadcast || extent.send == 0 || extent.recv == 0) {
    return absl::OkStatus();
  }
  const auto size = static_cast<uintptr_t>(SizeOf(call_.dtype));
  const auto send = reinterpret_cast<uintptr_t>(call_.send);
  const auto recv = reinterpret_cast<uintptr_t>(call_.recv);
  const bool overlap = send < recv + static_cast<uintptr_t>(extent.recv) * size &&
                       recv < send + static_cast<uintptr_t>(extent.send) * size;
  if (!overlap) return absl::OkStatus();
  if (extent.in_place == kNowhere) {
    return Wrong(call_.collective == Collective::kAllToAll
                     ? "send and recv overlap, and there is no in-place form"
                     : "send and recv overlap, and there is no in-place form for several tiles");
  }
  const uintptr_t offset = static_cast<uintptr_t>(extent.in_place) * size;
  const bool in_place = extent.send_is_smaller ? send == recv + offset : recv == send + offset;
  if (in_place) return absl::OkStatus();
  return Wrong(absl::StrCat("send and recv overlap; in place means ",
                            extent.send_is_smaller ? "send == recv + " : "recv == send + ",
                            extent.in_place, " elements on this rank"));
}

absl::Status Check::Run() {
  if (call_.collective == Collective::kBarrier) return absl::OkStatus();
  RZ_RETURN_IF_ERROR(CheckNumbers());
  const Extent extent = call_.has_counts ? VariantExtent() : EvenExtent();
  RZ_RETURN_IF_ERROR(CheckBuffers(extent));
  return CheckOverlap(extent);
}

}  // namespace

absl::Status CheckCall(const Call& call, Rank rank, int world) {
  return Check(call, rank, world).Run();
}

absl::Status CheckMessage(const char* what, const void* buffer, int64_t count, DType dtype,
                          Rank peer, Rank rank, int world) {
  const auto wrong = [&](const std::string& text) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank.value(), ", ", what, ": ", text));
  };
  if (peer.value() < 0 || peer.value() >= world) {
    return wrong(absl::StrCat("peer ", peer.value(), " is outside a world of ", world));
  }
  if (count < 0) return wrong(absl::StrCat("count ", count, " is negative"));
  if (count > std::numeric_limits<int64_t>::max() / ElementSize(dtype)) {
    return wrong(
        absl::StrCat("the bytes of ", count, " ", std::string(NameOf(dtype)), " overflow 64 bits"));
  }
  if (buffer == nullptr && count > 0) {
    return wrong(absl::StrCat("the buffer is null, ", count * static_cast<int64_t>(SizeOf(dtype)),
                              " bytes are needed"));
  }
  return absl::OkStatus();
}

int64_t TotalCount(const Call& call) {
  if (!call.has_counts) return call.count;
  int64_t total = 0;
  for (int64_t count : call.counts) total += count;
  return total;
}

std::string Describe(const Call& call) {
  std::string text = NameOfCall(call);
  if (call.collective == Collective::kBarrier) return text;
  absl::StrAppend(&text, " of ", TotalCount(call), " ", std::string(NameOf(call.dtype)));
  if (IsReduction(call.collective)) absl::StrAppend(&text, " ", std::string(NameOf(call.op)));
  if (HasRoot(call.collective)) absl::StrAppend(&text, ", root ", call.root.value());
  return text;
}

}  // namespace rz
