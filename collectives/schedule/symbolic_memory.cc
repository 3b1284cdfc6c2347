#include "collectives/schedule/symbolic_memory.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace rz {

SymbolicMemory::SymbolicMemory(const Schedule& schedule, int32_t rank, int32_t world,
                               const Claim& claim)
    : schedule_(&schedule),
      rank_(rank),
      world_(world),
      blocks_(claim.goal == Goal::kBarrier     ? 0
              : claim.goal == Goal::kBroadcast ? 1
                                               : world),
      claim_(claim),
      cells_(2 * blocks_ + schedule.wire_slots + schedule.accumulator_slots) {
  for (int32_t block = 0; block < blocks_; ++block) {
    const bool present = claim.goal == Goal::kAllGather   ? block == rank
                         : claim.goal == Goal::kBroadcast ? rank == claim.root
                                                          : true;
    if (present) {
      cells_[*CellOf(Input(block))] = SymbolicValue{block, Format::kWire, {rank}, 0, false};
    }
  }
}

bool SymbolicMemory::Exists(BlockRef ref) const {
  const int32_t size =
      ref.place == Place::kScratch ? schedule_->wire_slots + schedule_->accumulator_slots : blocks_;
  return ref.index >= 0 && ref.index < size;
}

bool SymbolicMemory::IsOutputOfGoal(int32_t block) const {
  return claim_.goal != Goal::kReduceScatter || block == rank_;
}

bool SymbolicMemory::Aliases(int32_t block) const {
  switch (claim_.goal) {
    case Goal::kAllReduce:
      return claim_.in_place;
    case Goal::kReduceScatter:
    case Goal::kAllGather:
      return claim_.in_place && block == rank_;
    case Goal::kBroadcast:
      return rank_ == claim_.root;
    case Goal::kBarrier:
      return false;
  }
  return false;
}

absl::StatusOr<int32_t> SymbolicMemory::CellOf(BlockRef ref) const {
  if (!Exists(ref)) {
    return absl::FailedPreconditionError(absl::StrCat(ToString(ref), " does not exist"));
  }
  switch (ref.place) {
    case Place::kInput:
      return Aliases(ref.index) ? blocks_ + ref.index : ref.index;
    case Place::kOutput:
      return blocks_ + ref.index;
    case Place::kScratch:
      return 2 * blocks_ + ref.index;
  }
  return absl::InternalError("unknown place");
}

absl::StatusOr<SymbolicValue> SymbolicMemory::Read(BlockRef ref, int32_t block) const {
  RZ_ASSIGN_OR_RETURN(const int32_t cell, CellOf(ref));
  const std::optional<SymbolicValue>& value = cells_[cell];
  if (!value.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToString(ref), " is read before it was written"));
  }
  if (value->block != block) {
    return absl::FailedPreconditionError(absl::StrCat(ToString(ref), " should hold block ", block,
                                                      " and holds {", ToString(*value), "}"));
  }
  return *value;
}

absl::Status SymbolicMemory::CheckWritable(BlockRef ref, int32_t block) const {
  RZ_RETURN_IF_ERROR(CellOf(ref).status());
  if (ref.place == Place::kInput) {
    return absl::FailedPreconditionError(absl::StrCat(ToString(ref), " is an input"));
  }
  if (ref.place == Place::kOutput && (ref.index != block || !IsOutputOfGoal(block))) {
    return absl::FailedPreconditionError(
        absl::StrCat("block ", block, " does not belong into ", ToString(ref), " of this rank"));
  }
  return absl::OkStatus();
}

absl::Status SymbolicMemory::Write(BlockRef ref, const SymbolicValue& value) {
  RZ_RETURN_IF_ERROR(CheckWritable(ref, value.block));
  if (FormatOf(ref) != value.format) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToString(ref), " has another format than {", ToString(value), "}"));
  }
  cells_[*CellOf(ref)] = value;
  return absl::OkStatus();
}

}  // namespace rz
