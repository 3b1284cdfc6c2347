// From a call to a running operation:
//   1. The call is checked against its rank and world (call_check.h).
//   2. The selector chooses an algorithm; the plan gets its schedule, its arithmetic and the layout
//      of its lanes.
//   3. Begin numbers it and hands it to the executor.
// A group first does 1 and 2 for all its calls, then 3; runs of small calls are packed, with the
// algorithm that each of them would have alone.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/call_check.h"
#include "collectives/communicator_impl.h"
#include "collectives/kernels/reduce_kernel.h"
#include "collectives/limits.h"
#include "collectives/shared/shared_work.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

// Offsets of packed blocks of these lengths.
void SetOffsets(absl::Span<const int64_t> counts, std::vector<int64_t>& offsets) {
  offsets.assign(1, 0);
  for (int64_t count : counts) offsets.push_back(offsets.back() + count);
}

}  // namespace

Request Communicator::Impl::RequestOf(const Call& call) const {
  Request request;
  request.collective = call.collective;
  request.dtype = call.dtype;
  request.op = call.op;
  request.tile_chunk = call.options.tile_chunk;
  request.mode = ModeOf(call.options);
  request.any_order = call.options.function != nullptr && call.options.function->any_order();
  request.has_counts = call.has_counts;
  if (!call.has_counts) {
    request.count = call.count;
  } else if (call.collective != Collective::kAllToAll) {
    request.count = TotalCount(call);
    request.largest_count = *std::max_element(call.counts.begin(), call.counts.end());
  }
  return request;
}

void Communicator::Impl::SetLayouts(const Call& call, const AlgorithmTraits& traits, Plan& plan) {
  const int world = group_.size();
  const int64_t slice =
      traits.unsliced ? LaneLayout::kUnsliced : selector_.SliceElements(traits, call.dtype);
  plan.output_lanes.reset();
  if (traits.needs_shared_memory()) return SetSharedLayout(call, plan);
  if (traits.needs_hosts() && traits.one_block) {
    plan.lanes = LaneLayout(ChunkLayout(plan.count, 1, 0), slice);
    return;
  }
  if (call.collective == Collective::kBarrier) {  // one lane, whose signals carry no element
    plan.lanes = LaneLayout(ChunkLayout(1, 1, 0), 1);
  } else if (call.has_counts) {
    SetOffsets(call.counts, offsets_);
    plan.lanes = LaneLayout(offsets_, slice);
    if (call.collective != Collective::kAllToAll) return;
    SetOffsets(call.recv_counts, recv_offsets_);
    plan.output_lanes = LaneLayout(recv_offsets_, slice);
  } else if (traits.one_block) {
    plan.lanes = LaneLayout(ChunkLayout(call.count, 1, 0), slice);
  } else if (call.collective == Collective::kAllToAll) {
    plan.lanes = LaneLayout(ChunkLayout(call.count * world, world, 0), slice);
  } else {
    plan.lanes = LaneLayout(ChunkLayout(call.count, world, call.options.tile_chunk), slice);
  }
}

void Communicator::Impl::SetSharedLayout(const Call& call, Plan& plan) {
  const int world = group_.size();
  const auto cut = [&](int64_t slice) {
    if (call.has_counts) {
      plan.lanes = LaneLayout(offsets_, slice);
    } else if (call.collective == Collective::kBroadcast) {
      plan.lanes = LaneLayout(ChunkLayout(call.count, 1, 0), slice);
    } else {
      const int64_t count = call.collective == Collective::kBarrier    ? 0
                            : call.collective == Collective::kAllToAll ? call.count * world
                                                                       : call.count;
      plan.lanes = LaneLayout(ChunkLayout(count, world, call.options.tile_chunk), slice);
    }
  };
  if (call.has_counts) SetOffsets(call.counts, offsets_);
  cut(LaneLayout::kUnsliced);
  const int64_t slice = SharedWork::SliceElements(plan, world, options_.shared_slot_bytes,
                                                  shared_ != nullptr && shared_->fetches());
  if (slice < plan.lanes.largest_block()) cut(slice);
}

absl::StatusOr<Plan> Communicator::Impl::MakePlan(const Call& call) {
  RZ_ASSIGN_OR_RETURN(const Algorithm algorithm, selector_.Choose(RequestOf(call)));
  return MakePlan(call, algorithm);
}

absl::StatusOr<Plan> Communicator::Impl::MakePlan(const Call& call, Algorithm algorithm) {
  Plan plan;
  plan.collective = call.collective;
  plan.algorithm = algorithm;
  plan.op = call.op;
  plan.root = call.root;
  plan.count = TotalCount(call);
  plan.has_counts = call.has_counts;
  plan.arithmetic.dtype = call.dtype;
  if (IsReduction(call.collective) && call.op == ReduceOp::kFunction) {
    plan.arithmetic.function = call.options.function;
  } else if (IsReduction(call.collective)) {
    RZ_ASSIGN_OR_RETURN(plan.arithmetic.kernel, GetReduceKernel(call.dtype, call.op));
    if (call.op == ReduceOp::kAvg) {
      plan.arithmetic.divisor = call.divisor > 0 ? call.divisor : group_.size();
    }
    plan.arithmetic.premul = call.options.premul;
  }
  SetLayouts(call, TraitsOf(call.collective, algorithm), plan);
  if (algorithm == Algorithm::kShared || algorithm == Algorithm::kHierarchical) return plan;
  const Format partials = PartialsOf(algorithm, call.dtype, call.op, ModeOf(call.options));
  plan.schedule = schedules_.Get(call.collective, algorithm, partials, call.root);
  return plan;
}

CallDescriptor Communicator::Impl::Describe(const Call& call, const Plan& plan,
                                            absl::Span<const Call> packed) const {
  CallDescriptor described;
  described.kind = static_cast<uint8_t>(call.collective);
  described.algorithm = static_cast<uint8_t>(plan.algorithm);
  described.slice_bytes = static_cast<uint32_t>(options_.slice_bytes);
  if (call.collective == Collective::kBarrier) return described;
  described.dtype = static_cast<uint8_t>(call.dtype);
  described.tile_chunk = call.options.tile_chunk;
  // In all_to_all_v every rank has counts of its own.
  const bool own_counts = call.has_counts && call.collective == Collective::kAllToAll;
  described.count = own_counts ? 0 : plan.count;
  if (HasRoot(call.collective)) described.root = call.root.value();
  if (IsReduction(call.collective)) {
    described.op = static_cast<uint8_t>(call.op);
    described.mode = static_cast<uint8_t>(ModeOf(call.options));
    if (call.op == ReduceOp::kFunction) described.function = call.options.function->number();
  }
  if (call.options.kernel != nullptr) described.counts_hash = CallDescriptor::kShardKernel;
  if (call.has_counts) described.counts_hash = HashOfCounts({});
  if (call.has_counts && !own_counts) described.counts_hash = HashOfCounts(call.counts);
  for (const Call& member : packed) {
    described.counts_hash = HashOfCounts({member.count}, described.counts_hash);
  }
  return described;
}

int64_t Communicator::Impl::Begin(const Call& call, const Plan& plan,
                                  const CallDescriptor& described) {
  const uint32_t fingerprint = guard_->Begin(described);
  const int64_t number = guard_->last();
  if (plan.algorithm == Algorithm::kShared) {
    shared_->engine().Start(number, plan, call.send, call.recv, call.options.kernel);
  } else if (plan.algorithm == Algorithm::kHierarchical) {
    hierarchy_->Start(number, plan, ModeOf(call.options), call.send, call.recv);
  } else {
    executor_->Start(number, plan, call.send, call.recv, fingerprint);
  }
  guard_->End();
  return number;
}

void Communicator::Impl::OnFinished(int64_t number, const absl::Status& result) {
  if (!result.ok()) RecordPosition(number);
  guard_->OnFinished(number, result.ok());
  for (auto& pack : packs_) {
    if (pack->number != number || !result.ok()) continue;
    pack->calls.Unpack();
    pack->number = -1;
  }
}

absl::Status Communicator::Impl::CheckKernel(const Call& call, const Plan& plan) const {
  if (call.options.kernel == nullptr || plan.algorithm == Algorithm::kShared) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat(group_.DescribeSelf(), ", ", std::string(NameOf(call.collective)), " by ",
                   std::string(NameOf(plan.algorithm)),
                   ": a shard kernel is run by calls through shared memory alone; ask "
                   "RunsShardKernels first"));
}

absl::StatusOr<Operation> Communicator::Impl::Start(const Call& call) {
  const ProgressThread::Section inside(progress());
  RZ_RETURN_IF_ERROR(CheckUsable());
  RZ_RETURN_IF_ERROR(CheckCall(call, group_.rank(), group_.size()));
  const PlannedCall* const like_before = plans_.Find(call, selector_.generation());
  int64_t number;
  if (like_before != nullptr) {
    RZ_RETURN_IF_ERROR(CheckKernel(call, like_before->plan));
    number = Begin(call, like_before->plan, like_before->described);
  } else {
    PlannedCall planned;
    RZ_ASSIGN_OR_RETURN(planned.plan, MakePlan(call));
    RZ_RETURN_IF_ERROR(CheckKernel(call, planned.plan));
    planned.described = Describe(call, planned.plan);
    plans_.Keep(call, selector_.generation(), planned);
    number = Begin(call, planned.plan, planned.described);
  }
  return Operation(this, Operation::Kind::kCollectives, number, number);
}

absl::StatusOr<Operation> Communicator::Impl::StartGroup(absl::Span<const Call> calls) {
  const ProgressThread::Section inside(progress());
  RZ_RETURN_IF_ERROR(CheckUsable());
  group_algorithms_.clear();
  for (const Call& call : calls) {
    RZ_RETURN_IF_ERROR(CheckCall(call, group_.rank(), group_.size()));
    RZ_ASSIGN_OR_RETURN(const Plan plan, MakePlan(call));
    RZ_RETURN_IF_ERROR(CheckKernel(call, plan));
    group_algorithms_.push_back(plan.algorithm);
  }
  const int64_t first_number = guard_->last() + 1;
  for (size_t next = 0; next < calls.size();) {
    RZ_ASSIGN_OR_RETURN(const size_t begun, BeginNextOfGroup(calls, next));
    next += begun;
  }
  return Operation(this, Operation::Kind::kCollectives, first_number, guard_->last());
}

size_t Communicator::Impl::PackLength(absl::Span<const Call> calls, size_t first) {
  if (!IsPackable(calls[first], group_.size())) return 1;
  int64_t bytes = 0;
  size_t end = first;
  for (; end < calls.size(); ++end) {
    const Call& call = calls[end];
    if (!IsPackable(call, group_.size()) || !ArePackable(calls[first], call) ||
        group_algorithms_[end] != group_algorithms_[first]) {
      break;
    }
    bytes += call.count * static_cast<int64_t>(SizeOf(call.dtype));
    if (bytes > kMaxPackedTotal) break;
  }
  return std::max<size_t>(1, end - first);
}

absl::StatusOr<size_t> Communicator::Impl::BeginNextOfGroup(absl::Span<const Call> calls,
                                                            size_t first) {
  const size_t length = PackLength(calls, first);
  if (length > 1) {
    RZ_RETURN_IF_ERROR(BeginPack(calls.subspan(first, length), group_algorithms_[first]));
    return length;
  }
  RZ_ASSIGN_OR_RETURN(const Plan plan, MakePlan(calls[first], group_algorithms_[first]));
  Begin(calls[first], plan, Describe(calls[first], plan));
  return size_t{1};
}

Communicator::Impl::Pack& Communicator::Impl::FreePack() {
  for (auto& pack : packs_) {
    if (pack->number < 0) return *pack;
  }
  packs_.push_back(std::make_unique<Pack>());
  return *packs_.back();
}

absl::Status Communicator::Impl::BeginPack(absl::Span<const Call> calls, Algorithm algorithm) {
  Pack& pack = FreePack();
  absl::Status packed = pack.calls.Pack(calls, group_.rank(), group_.size());
  if (packed.ok()) {
    const Call& call = pack.calls.call();
    RZ_ASSIGN_OR_RETURN(const Plan plan, MakePlan(call, algorithm));
    pack.number = guard_->last() + 1;
    Begin(call, plan, Describe(call, plan, calls));
  } else {
    // Others have begun what this rank cannot follow.
    Fail(packed);
  }
  return packed;
}

absl::StatusOr<Operation> Communicator::Impl::StartMessage(bool is_send, void* buffer,
                                                           int64_t count, DType dtype, Rank peer) {
  const ProgressThread::Section inside(progress());
  RZ_RETURN_IF_ERROR(CheckUsable());
  RZ_RETURN_IF_ERROR(CheckMessage(is_send ? "send" : "receive", buffer, count, dtype, peer,
                                  group_.rank(), group_.size()));
  const absl::StatusOr<int64_t> number = is_send ? messages_->Send(buffer, count, dtype, peer)
                                                 : messages_->Receive(buffer, count, dtype, peer);
  if (!number.ok()) {
    Fail(number.status());
    return number.status();
  }
  return Operation(this, Operation::Kind::kMessage, *number, *number);
}

}  // namespace rz
