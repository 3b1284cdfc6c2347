#include "collectives/hierarchy/hierarchy_work.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/dtype.h"

namespace rz {
namespace {

constexpr int64_t kAlignment = 64;

int64_t Aligned(int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

HierarchyWork::HierarchyWork(const HostMap* hosts, int rank, bool carries_payload)
    : hosts_(hosts),
      rank_(rank),
      host_(hosts->HostOf(rank)),
      index_(hosts->IndexOf(rank)),
      carries_payload_(carries_payload) {
  counts_.reserve(static_cast<size_t>(std::max(hosts->hosts(), hosts->largest_host())));
}

void HierarchyWork::Reset(const Plan* plan, NumericMode mode, const std::byte* input,
                          std::byte* output) {
  plan_ = plan;
  mode_ = mode;
  input_ = input;
  output_ = output;
  element_bytes_ = SizeOf(plan->arithmetic.dtype);
}

int64_t HierarchyWork::HostElements(Position at, int host) const {
  int64_t elements = 0;
  for (int rank : hosts_->RanksOf(host)) elements += BlockOf(at, rank).count;
  return elements;
}

Range HierarchyWork::PartOf(Position at, int host, int column) const {
  return EvenSplit(HostElements(at, host), hosts_->columns(), column);
}

Range HierarchyWork::OwnPart(Range slice) const {
  if (!in_column()) return {slice.offset, 0};
  const Range part = EvenSplit(slice.count, hosts_->columns(), index_);
  return {slice.offset + part.offset, part.count};
}

HierarchyWork::Staging HierarchyWork::StagingOf(Position at) const {
  if (!needs_scratch()) return {};
  int64_t column = 0;
  int64_t host = HostElements(at, host_);
  int64_t part = 0;
  if (plan_->collective == Collective::kReduce) {
    const Range slice = BlockOf(at, 0);
    part = OwnPart(slice).count;
    host = slice.count;
    return {.host = Aligned(part), .end = Aligned(part) + Aligned(host)};
  }
  if (in_column()) {
    for (int h = 0; h < hosts_->hosts(); ++h) column += PartOf(at, h, index_).count;
    part = PartOf(at, host_, index_).count;
  }
  Staging staging;
  staging.column = Aligned(plan_->lanes.ElementsBefore(at, plan_->lanes.blocks()));
  staging.part = staging.column + Aligned(column);
  staging.host = staging.part + Aligned(part);
  staging.end = staging.host + Aligned(host);
  return staging;
}

bool HierarchyWork::needs_scratch() const {
  return plan_->collective == Collective::kReduce ||
         plan_->collective == Collective::kReduceScatter ||
         plan_->collective == Collective::kAllGather;
}

size_t HierarchyWork::ScratchBytes() const {
  if (!needs_scratch()) return 0;
  // In a v variant no lane needs more than all blocks full.
  if (slices() == 0) return 0;
  const int64_t block = plan_->lanes.largest_block();
  const int64_t whole = block * plan_->lanes.blocks();
  const int64_t hosts = hosts_->hosts();
  const int64_t column = whole / hosts_->columns() + hosts;
  const int64_t host = std::min(whole, block * hosts_->largest_host());
  return Bytes(Aligned(whole) + 2 * Aligned(column) + Aligned(host));
}

template <typename F>
void HierarchyWork::ForEachPiece(Position at, F f) const {
  if (!carries_payload_) return;
  int64_t position = 0;
  for (int column = 0; column < hosts_->columns(); ++column) {
    for (int host = 0; host < hosts_->hosts(); ++host) {
      const Range part = PartOf(at, host, column);
      int64_t before = 0;
      for (int rank : hosts_->RanksOf(host)) {
        if (before >= part.end()) break;
        const Range block = BlockOf(at, rank);
        const int64_t begin = std::max(before, part.offset);
        const int64_t end = std::min(before + block.count, part.end());
        if (begin < end) {
          f(Range{block.offset + begin - before, end - begin}, position + begin - part.offset);
        }
        before += block.count;
      }
      position += part.count;
    }
  }
}

bool HierarchyWork::PartsAreBlocks(Position at) const {
  const absl::Span<const int> ranks = hosts_->RanksOf(host_);
  if (static_cast<int>(ranks.size()) != hosts_->columns()) return false;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (PartOf(at, host_, static_cast<int>(i)).count != BlockOf(at, ranks[i]).count) return false;
  }
  return true;
}

Call HierarchyWork::NewCall(Collective collective) const {
  Call call;
  call.collective = collective;
  call.dtype = plan_->arithmetic.dtype;
  if (!IsReduction(collective)) return call;
  call.op = plan_->op == ReduceOp::kAvg ? ReduceOp::kSum : plan_->op;
  call.options.numeric_mode = mode_;
  call.options.premul = plan_->arithmetic.premul;
  call.options.function = plan_->arithmetic.function;
  return call;
}

Call HierarchyWork::LocalCall(Collective collective) {
  Call call = NewCall(collective);
  call.has_counts = true;
  call.counts = counts_;
  return call;
}

Call HierarchyWork::ReduceLocally(const std::byte* from, std::byte* to) {
  Call call = LocalCall(Collective::kReduceScatter);
  call.send = from;
  call.recv = to;
  return call;
}

Call HierarchyWork::GatherLocally(const std::byte* from, std::byte* to) {
  Call call = LocalCall(Collective::kAllGather);
  call.send = from;
  call.recv = to;
  return call;
}

Call HierarchyWork::ReduceAcross(Collective collective) const {
  Call call = NewCall(collective);
  if (plan_->op == ReduceOp::kPremulSum) {
    call.op = ReduceOp::kSum;  // the inputs were multiplied on their hosts
  } else if (plan_->op == ReduceOp::kAvg) {
    call.op = ReduceOp::kAvg;
    call.divisor = hosts_->ranks();
  }
  return call;
}

// The parts of a slice of one block, and none of the ranks that are in no column.
void HierarchyWork::SetPartCounts(Range slice) {
  const int columns = hosts_->columns();
  counts_.assign(hosts_->RanksOf(host_).size(), 0);
  for (int k = 0; k < columns; ++k) {
    counts_[static_cast<size_t>(k)] = EvenSplit(slice.count, columns, k).count;
  }
}

// All hosts' parts of each column.
void HierarchyWork::SetColumnCounts(Position at) {
  counts_.assign(hosts_->RanksOf(host_).size(), 0);
  for (int host = 0; host < hosts_->hosts(); ++host) {
    const int64_t elements = HostElements(at, host);
    for (int k = 0; k < hosts_->columns(); ++k) {
      counts_[static_cast<size_t>(k)] += EvenSplit(elements, hosts_->columns(), k).count;
    }
  }
}

std::optional<Call> HierarchyWork::In(int64_t slice, std::byte* scratch) {
  const Position at = plan_->lanes.At(slice);
  const Staging staging = StagingOf(at);
  const Range whole = BlockOf(at, 0);  // where there is one block
  switch (plan_->collective) {
    case Collective::kAllReduce:
      SetPartCounts(whole);
      return ReduceLocally(input_ + Bytes(whole.offset), output_ + Bytes(OwnPart(whole).offset));
    case Collective::kReduce:
      SetPartCounts(whole);
      return ReduceLocally(input_ + Bytes(whole.offset), scratch + Bytes(staging.part));
    case Collective::kReduceScatter:
      ForEachPiece(at, [&](Range range, int64_t position) {
        std::memcpy(scratch + Bytes(position), input_ + Bytes(range.offset), Bytes(range.count));
      });
      SetColumnCounts(at);
      return ReduceLocally(scratch, scratch + Bytes(staging.column));
    case Collective::kAllGather: {
      if (HostElements(at, host_) == 0) return std::nullopt;
      counts_.clear();
      for (int rank : hosts_->RanksOf(host_)) counts_.push_back(BlockOf(at, rank).count);
      const bool gives = BlockOf(at, rank_).count > 0;
      return GatherLocally(gives ? input_ + Bytes(plan_->lanes.ShardOffset(at)) : nullptr,
                           scratch + Bytes(staging.host));
    }
    case Collective::kBroadcast: {
      if (hosts_->HostOf(plan_->root.value()) != host_) return std::nullopt;
      Call call = NewCall(Collective::kBroadcast);
      call.send = call.recv = output_ + Bytes(whole.offset);
      call.count = whole.count;
      call.root = Rank(hosts_->IndexOf(plan_->root.value()));
      return call;
    }
    default:
      return NewCall(Collective::kBarrier);
  }
}

std::optional<Call> HierarchyWork::Across(int64_t slice, std::byte* scratch) {
  if (!in_column()) return std::nullopt;
  const Position at = plan_->lanes.At(slice);
  if (plan_->collective == Collective::kBarrier) {
    if (index_ > 0) return std::nullopt;
    return NewCall(Collective::kBarrier);
  }
  const Staging staging = StagingOf(at);
  const bool gathers = plan_->collective == Collective::kAllGather;
  if (gathers || plan_->collective == Collective::kReduceScatter) {
    int64_t elements = 0;
    counts_.clear();
    for (int h = 0; h < hosts_->hosts(); ++h) {
      counts_.push_back(PartOf(at, h, index_).count);
      elements += counts_.back();
    }
    if (elements == 0) return std::nullopt;
    Call call =
        gathers ? NewCall(Collective::kAllGather) : ReduceAcross(Collective::kReduceScatter);
    call.has_counts = true;
    call.counts = counts_;
    const std::byte* const own_part =
        scratch + Bytes(staging.host + PartOf(at, host_, index_).offset);
    call.send = gathers ? own_part : scratch + Bytes(staging.column);
    call.recv = scratch + Bytes(gathers ? staging.column : staging.part);
    return call;
  }
  const Range part = OwnPart(BlockOf(at, 0));
  if (part.count == 0) return std::nullopt;
  Call call =
      IsReduction(plan_->collective) ? ReduceAcross(plan_->collective) : NewCall(plan_->collective);
  const bool in_scratch = plan_->collective == Collective::kReduce;
  call.send = call.recv = in_scratch ? scratch + Bytes(staging.part) : output_ + Bytes(part.offset);
  call.count = part.count;
  if (HasRoot(plan_->collective)) call.root = Rank(hosts_->HostOf(plan_->root.value()));
  return call;
}

std::optional<Call> HierarchyWork::Out(int64_t slice, std::byte* scratch) {
  const Position at = plan_->lanes.At(slice);
  const Staging staging = StagingOf(at);
  const Range whole = BlockOf(at, 0);
  const bool at_root = HasRoot(plan_->collective) && hosts_->HostOf(plan_->root.value()) == host_;
  switch (plan_->collective) {
    case Collective::kReduce:
      if (!at_root) return std::nullopt;
      SetPartCounts(whole);
      return GatherLocally(scratch + Bytes(staging.part), plan_->root.value() == rank_
                                                              ? output_ + Bytes(whole.offset)
                                                              : scratch + Bytes(staging.host));
    case Collective::kReduceScatter:
      if (HostElements(at, host_) == 0 || PartsAreBlocks(at)) return std::nullopt;
      counts_.assign(hosts_->RanksOf(host_).size(), 0);
      for (int k = 0; k < hosts_->columns(); ++k) {
        counts_[static_cast<size_t>(k)] = PartOf(at, host_, k).count;
      }
      return GatherLocally(scratch + Bytes(staging.part), scratch + Bytes(staging.host));
    case Collective::kAllGather:
      SetColumnCounts(at);
      return GatherLocally(scratch + Bytes(staging.column), scratch);
    case Collective::kBroadcast:
      if (at_root) return std::nullopt;
      [[fallthrough]];
    case Collective::kAllReduce:
      SetPartCounts(whole);
      return GatherLocally(output_ + Bytes(OwnPart(whole).offset), output_ + Bytes(whole.offset));
    default:
      return NewCall(Collective::kBarrier);
  }
}

void HierarchyWork::Finish(int64_t slice, const std::byte* scratch) {
  const Position at = plan_->lanes.At(slice);
  if (plan_->collective == Collective::kAllGather) {
    ForEachPiece(at, [&](Range range, int64_t position) {
      std::memcpy(output_ + Bytes(range.offset), scratch + Bytes(position), Bytes(range.count));
    });
    return;
  }
  if (plan_->collective != Collective::kReduceScatter) return;
  const int64_t count = BlockOf(at, rank_).count;
  if (count == 0 || !carries_payload_) return;
  const Staging staging = StagingOf(at);
  int64_t from = staging.part;
  if (!PartsAreBlocks(at)) {
    from = staging.host;
    for (int rank : hosts_->RanksOf(host_)) {
      if (rank < rank_) from += BlockOf(at, rank).count;
    }
  }
  std::memcpy(output_ + Bytes(plan_->lanes.ShardOffset(at)), scratch + Bytes(from), Bytes(count));
}

}  // namespace rz
