#include "collectives/shared/shared_work.h"

#include <algorithm>
#include <cstring>

#include "collectives/shared/fetch.h"
#include "collectives/shared/reduce_sources.h"
#include "collectives/shared/shared_limits.h"
#include "collectives/shared/stream_copy.h"

namespace rz {
namespace {

// A lane's input is laid out block by block, at one stride; of these one block alone.
bool OffersOneBlock(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kGather ||
         collective == Collective::kBroadcast;
}

}  // namespace

void SharedWork::Reset(const Plan* plan, int rank, int world, bool sums_by_owner,
                       const std::byte* input, std::byte* output) {
  plan_ = plan;
  rank_ = rank;
  world_ = world;
  input_ = input;
  output_ = output;
  element_bytes_ = SizeOf(plan->arithmetic.dtype);
  offers_own_block_ = !sums_by_owner && (plan->collective == Collective::kAllReduce ||
                                         plan->collective == Collective::kReduce);
  sources_.resize(static_cast<size_t>(world));
  // A shard is what each of them writes; elsewhere each writes everything.
  const size_t least_to_stream = plan->output_is_shard()
                                     ? static_cast<size_t>(world) * kLeastShardToStream
                                     : kLeastOutputToStream;
  // In place, what is written was just read, and is in the cache.
  const bool in_place = IsReduction(plan->collective) && output_ >= input_ &&
                        output_ < input_ + Bytes(layout().count());
  streams_ = !in_place && Bytes(layout().count()) >= least_to_stream;
}

bool SharedWork::SumsByOwner(const Plan& plan, int world, size_t slot_bytes) {
  if (plan.collective == Collective::kReduce || plan.collective == Collective::kAllReduce) {
    const size_t bytes = static_cast<size_t>(plan.lanes.count()) * SizeOf(plan.arithmetic.dtype);
    return bytes * static_cast<size_t>(world) > std::min(kMostBytesSummedByAll, slot_bytes);
  }
  return false;
}

bool SharedWork::MayFetch(const Plan& plan, int world, size_t slot_bytes) {
  size_t least = slot_bytes;
  switch (plan.collective) {
    case Collective::kReduceScatter:
    case Collective::kAllReduce:
      if (world > kMostRanksToFetchSums) return false;
      least *= kLeastSlotsToFetchSums;
      break;
    case Collective::kReduce:
    case Collective::kBarrier:
      return false;
    default:
      least /= world == 2 ? kSlotOverLeastToFetchFromOne : kSlotOverLeastToFetch;
  }
  return LargestInput(plan) >= std::max(least, kLeastBytesInPlace);
}

int64_t SharedWork::SliceElements(const Plan& plan, int world, size_t slot_bytes, bool fetches) {
  const auto element = static_cast<int64_t>(SizeOf(plan.arithmetic.dtype));
  if (fetches && MayFetch(plan, world, slot_bytes)) {
    const size_t bytes = IsReduction(plan.collective)
                             ? 2 * slot_bytes / static_cast<size_t>(std::max(world - 1, 1))
                             : kMostBytesToFetch;
    return std::max<int64_t>(
        1, static_cast<int64_t>(bytes) / kSharedAlignment * kSharedAlignment / element);
  }
  const int64_t blocks = OffersOneBlock(plan.collective) ? 1 : world;
  const auto largest = static_cast<int64_t>(slot_bytes) / blocks;
  // Several steps, so that one rank copies while another one reads; not so small that the flags
  // count.
  const int64_t wanted =
      std::max<int64_t>(kLeastBytesOfStep, plan.lanes.largest_block() * element / kStepsOfCall);
  const int64_t bytes = std::min(largest, wanted) / kSharedAlignment * kSharedAlignment;
  return std::max<int64_t>(1,
                           std::max(bytes, std::min<int64_t>(largest, kSharedAlignment)) / element);
}

size_t SharedWork::LargestInput(const Plan& plan) {
  if (plan.collective == Collective::kBarrier) return 0;
  const int64_t elements = plan.input_is_shard() ? plan.lanes.largest_shard() : plan.lanes.count();
  return static_cast<size_t>(elements) * SizeOf(plan.arithmetic.dtype);
}

bool SharedWork::Gives(const Plan& plan, int rank) {
  const bool is_root = plan.root == Rank(rank);
  switch (plan.collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      return is_root;
    case Collective::kBarrier:
      return false;
    default:
      return true;
  }
}

bool SharedWork::Takes(int rank) const {
  const bool is_root = plan_->root == Rank(rank);
  switch (plan_->collective) {
    case Collective::kGather:
    case Collective::kReduce:
      return is_root;
    case Collective::kBroadcast:
      return !is_root;
    case Collective::kBarrier:
      return false;
    default:
      return true;
  }
}

SharedWork::Way SharedWork::WayOf(Collective collective, Reach inputs, Reach outputs) {
  const bool takes = inputs != Reach::kNone;
  const bool pushes = outputs == Reach::kStore;
  switch (collective) {
    case Collective::kAllReduce:
      if (!takes || outputs == Reach::kNone) return Way::kSlots;
      return pushes ? Way::kSumAndPush : Way::kSumAndTake;
    case Collective::kReduce:
      return takes && pushes ? Way::kSumAndPush : Way::kSlots;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return pushes ? Way::kPush : takes ? Way::kTake : Way::kSlots;
    default:
      return takes ? Way::kTake : Way::kSlots;
  }
}

size_t SharedWork::InputOffset(Position at, int32_t block) const {
  return Bytes(plan_->input_is_shard() ? layout().ShardOffset(at)
                                       : layout().Block(at, block).offset);
}

size_t SharedWork::OutputOffset(Position at, int32_t block) const {
  return Bytes(plan_->output_is_shard() ? layout().ShardOffset(at)
                                        : layout().Block(at, block).offset);
}

void SharedWork::Copy(std::byte* to, const std::byte* from, int64_t elements) const {
  if (elements > 0 && to != from) std::memcpy(to, from, Bytes(elements));
}

void SharedWork::CopyOut(std::byte* to, const std::byte* from, int64_t elements) const {
  if (!streams_) {
    Copy(to, from, elements);
  } else if (elements > 0 && to != from) {
    StreamCopy(to, from, Bytes(elements));
  }
}

void SharedWork::Offer(int64_t lane, std::byte* slot) const {
  const Position at = layout().At(lane);
  if (OffersOneBlock(plan_->collective)) {
    const int32_t block = one_block() ? 0 : rank_;
    Copy(slot, input_ + InputOffset(at, block), CountOf(at, block));
    return;
  }
  const size_t stride = Bytes(layout().largest_block());
  for (int32_t block = 0; block < layout().blocks(); ++block) {
    // What only this rank reads is read in place.
    if (block == rank_ && !offers_own_block_) continue;
    Copy(slot + static_cast<size_t>(block) * stride, input_ + InputOffset(at, block),
         CountOf(at, block));
  }
}

const std::byte* SharedWork::BlockOf(const Inputs& inputs, int rank, Position at,
                                     int32_t block) const {
  if (rank == rank_) return input_ + InputOffset(at, block);
  const std::byte* const base = inputs.of[static_cast<size_t>(rank)];
  if (inputs.whole) return base + InputOffset(at, block);
  if (OffersOneBlock(plan_->collective)) return base;
  return base + static_cast<size_t>(block) * Bytes(layout().largest_block());
}

int64_t SharedWork::ProcessOf(absl::Span<const int64_t> processes, int rank) const {
  return rank == rank_ || processes.empty() ? 0 : processes[static_cast<size_t>(rank)];
}

int SharedWork::Reduce(const Inputs& inputs, Position at, int32_t block, std::byte* to,
                       bool stream) {
  const int64_t count = CountOf(at, block);
  if (count == 0) return kNone;
  std::byte* scratch = inputs.scratch;
  int from = block;
  for (int i = 0; i < world_; ++i) {
    if (++from == world_) from = 0;
    const std::byte*& source = sources_[static_cast<size_t>(i)];
    source = BlockOf(inputs, from, at, block);
    const int64_t process = ProcessOf(inputs.processes, from);
    if (process == 0) continue;
    if (!Fetch(process, scratch, source, Bytes(count))) return from;
    source = scratch;
    scratch += Bytes(layout().largest_block());
  }
  const bool runs =
      ReduceSources(to, sources_, static_cast<size_t>(count), plan_->arithmetic, stream);
  return runs ? kNone : kFunctionFailed;
}

int SharedWork::ReduceOwn(const Inputs& inputs, Position at, std::byte* at_hand, bool stream) {
  const int failure = Reduce(inputs, at, rank_, at_hand, stream && kernel_ == nullptr);
  if (kernel_ == nullptr || failure != kNone) return failure;
  const int64_t count = CountOf(at, rank_);
  if (count > 0) kernel_->Run(layout().ShardOffset(at), count, at_hand);
  return kNone;
}

int SharedWork::SumWhole(int64_t lane, const Inputs& inputs) {
  const Position at = layout().At(lane);
  std::byte* const output = output_ + OutputOffset(at, rank_);
  std::byte* const sum = AtHand(inputs, output);
  const int failure = ReduceOwn(inputs, at, sum, false);
  Copy(output, sum, CountOf(at, rank_));
  return failure;
}

int SharedWork::TakeSums(int64_t lane, absl::Span<std::byte* const> outputs,
                         absl::Span<const int64_t> processes) const {
  const Position at = layout().At(lane);
  int unread = kNone;
  for (int i = 1; i < world_; ++i) {
    const int r = (rank_ + i) % world_;
    const size_t offset = OutputOffset(at, r);
    const std::byte* const from = outputs[static_cast<size_t>(r)] + offset;
    const int64_t process = ProcessOf(processes, r);
    if (process == 0) {
      CopyOut(output_ + offset, from, CountOf(at, r));
    } else if (!Fetch(process, output_ + offset, from, Bytes(CountOf(at, r)))) {
      unread = r;
    }
  }
  return unread;
}

int SharedWork::Sum(int64_t lane, const Inputs& inputs, std::byte* result_slot) {
  const Position at = layout().At(lane);
  if (plan_->collective == Collective::kReduce && takes()) {
    return Reduce(inputs, at, rank_, output_ + OutputOffset(at, rank_), streams_);
  }
  const int failure = ReduceOwn(inputs, at, result_slot, false);
  if (takes()) CopyOut(output_ + OutputOffset(at, rank_), result_slot, CountOf(at, rank_));
  return failure;
}

bool SharedWork::TakeBlock(std::byte* to, const Inputs& inputs, int rank, Position at,
                           int32_t block) const {
  const std::byte* const from = BlockOf(inputs, rank, at, block);
  const int64_t count = CountOf(at, block);
  const int64_t process = ProcessOf(inputs.processes, rank);
  if (process != 0) return Fetch(process, to, from, Bytes(count));
  CopyOut(to, from, count);
  return true;
}

int SharedWork::Take(int64_t lane, const Inputs& inputs,
                     absl::Span<const std::byte* const> results) {
  const Position at = layout().At(lane);
  int failure = kNone;
  // The block is `index` of the output.
  const auto take = [&](int from, int32_t block, int32_t index) {
    if (!TakeBlock(output_ + OutputOffset(at, index), inputs, from, at, block)) failure = from;
  };
  switch (plan_->collective) {
    case Collective::kAllGather:
    case Collective::kGather:
      for (int i = 0; i < world_; ++i) {
        const int r = (rank_ + i) % world_;
        take(r, r, r);
      }
      break;
    case Collective::kBroadcast:
      take(plan_->root.value(), 0, 0);
      break;
    case Collective::kScatter:
      take(plan_->root.value(), rank_, rank_);
      break;
    case Collective::kAllToAll:
      // Block r of the output comes from rank r, where it is the block for this rank.
      for (int i = 0; i < world_; ++i) {
        const int r = (rank_ + i) % world_;
        take(r, rank_, r);
      }
      break;
    case Collective::kReduceScatter:
      failure = ReduceOwn(inputs, at, AtHand(inputs, output_ + OutputOffset(at, rank_)), streams_);
      break;
    case Collective::kAllReduce:
    case Collective::kReduce:
      for (int32_t block = 0; block < world_ && failure == kNone; ++block) {
        if (results.empty()) {
          failure = Reduce(inputs, at, block, output_ + OutputOffset(at, block), streams_);
        } else if (block != rank_) {
          CopyOut(output_ + OutputOffset(at, block), results[static_cast<size_t>(block)],
                  CountOf(at, block));
        }
      }
      break;
    case Collective::kBarrier:
      break;
  }
  return failure;
}

void SharedWork::Push(int64_t lane, absl::Span<std::byte* const> outputs) const {
  const Position at = layout().At(lane);
  for (int i = 0; i < world_; ++i) {
    const int r = (rank_ + i) % world_;
    std::byte* const to =
        (r == rank_ ? output_ : outputs[static_cast<size_t>(r)]) + OutputOffset(at, rank_);
    const int32_t block = plan_->collective == Collective::kAllToAll ? r : rank_;
    CopyOut(to, input_ + InputOffset(at, block), CountOf(at, block));
  }
}

int SharedWork::SumAndPush(int64_t lane, const Inputs& inputs,
                           absl::Span<std::byte* const> outputs) {
  const Position at = layout().At(lane);
  const auto output_of = [&](int rank) {
    return (rank == rank_ ? output_ : outputs[static_cast<size_t>(rank)]) + OutputOffset(at, rank_);
  };
  if (plan_->collective == Collective::kReduce) {
    return Reduce(inputs, at, rank_, output_of(plan_->root.value()), streams_);
  }
  // The own block stays in the cache until all have it.
  std::byte* const sum = AtHand(inputs, output_of(rank_));
  const int failure = ReduceOwn(inputs, at, sum, false);
  if (failure != kNone) return failure;
  for (int i = 0; i < world_; ++i) {
    CopyOut(output_of((rank_ + i) % world_), sum, CountOf(at, rank_));
  }
  return kNone;
}

size_t SharedWork::InputBytes(const Plan& plan, int rank) {
  if (!Gives(plan, rank)) return 0;
  const int64_t elements = plan.input_is_shard() ? plan.lanes.ShardCount(rank) : plan.lanes.count();
  return static_cast<size_t>(elements) * SizeOf(plan.arithmetic.dtype);
}

size_t SharedWork::output_bytes() const {
  if (!takes()) return 0;
  return Bytes(plan_->output_is_shard() ? layout().ShardCount(rank_) : layout().count());
}

absl::Span<const std::byte> SharedWork::WholeInput(const Plan& plan, int rank, const void* input) {
  return {static_cast<const std::byte*>(input), InputBytes(plan, rank)};
}

}  // namespace rz
