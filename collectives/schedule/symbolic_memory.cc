#include "collectives/schedule/symbolic_memory.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace rz {

SymbolicMemory::SymbolicMemory(const Schedule& schedule, int32_t rank, int32_t world,
                               const Claim& claim)
    : schedule_(&schedule),
      rank_(rank),
      world_(world),
      blocks_(BlocksOf(claim, world, schedule.one_block)),
      claim_(claim),
      cells_(static_cast<size_t>(2 + schedule.lane_slots) * blocks_ + SlotCount()) {
  for (int32_t block = 0; block < blocks_; ++block) {
    if (!HasInput(claim, rank, block)) continue;
    SymbolicValue value;
    value.block = block;
    value.addends = {rank};
    cells_[PieceOf(Input(block), block)->cell] = value;
  }
}

bool SymbolicMemory::Exists(BlockRef ref, int32_t block) const {
  const auto within = [](int32_t index, int32_t size) { return index >= 0 && index < size; };
  switch (ref.place) {
    case Place::kInput:
    case Place::kOutput:
      return within(ref.index, blocks_);
    case Place::kScratch:
      return within(ref.index, SlotCount());
    case Place::kLaneSlot:
      return within(ref.index, schedule_->lane_slots) && within(block, blocks_);
  }
  return false;
}

absl::StatusOr<SymbolicMemory::Piece> SymbolicMemory::PieceOf(BlockRef ref, int32_t block) const {
  if (!Exists(ref, block)) {
    return absl::FailedPreconditionError(absl::StrCat(ToString(ref), " does not exist"));
  }
  Piece piece{ref, block, 0};
  switch (ref.place) {
    case Place::kInput:
      piece.cell = ref.index + (IsInPlace(claim_, rank_, ref.index) ? blocks_ : 0);
      break;
    case Place::kOutput:
      piece.cell = blocks_ + ref.index;
      break;
    case Place::kScratch:
      if (claim_.goal == Goal::kAllToAll && !schedule_->equal_blocks) {
        return absl::FailedPreconditionError(
            absl::StrCat(ToString(ref), " has no length: blocks need not be equal"));
      }
      piece.cell = 2 * blocks_ + ref.index;
      break;
    case Place::kLaneSlot:
      piece.cell = 2 * blocks_ + SlotCount() + ref.index * blocks_ + block;
      break;
  }
  return piece;
}

absl::Status SymbolicMemory::CheckRun(const Transfer& transfer) const {
  if (transfer.blocks < 1) return absl::FailedPreconditionError("it is empty");
  const BlockRef last{transfer.ref.place, transfer.ref.index + transfer.blocks - 1};
  switch (transfer.ref.place) {
    case Place::kInput:
    case Place::kOutput:
      if (transfer.ref.index != transfer.block) {
        return absl::FailedPreconditionError(
            absl::StrCat(ToString(transfer.ref), " is not block ", transfer.block));
      }
      if (transfer.blocks > 1 && !schedule_->unsliced) {
        return absl::FailedPreconditionError("blocks of a slice do not stand one after another");
      }
      return absl::OkStatus();
    case Place::kScratch:
      if (FormatOf(transfer.ref) != FormatOf(last)) {
        return absl::FailedPreconditionError("its slots have two formats");
      }
      return absl::OkStatus();
    case Place::kLaneSlot:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SymbolicMemory::Piece>> SymbolicMemory::PiecesOf(
    const Transfer& transfer) const {
  RZ_RETURN_IF_ERROR(CheckRun(transfer));
  const bool lanes = transfer.ref.place == Place::kLaneSlot;
  std::vector<Piece> pieces;
  for (int32_t i = 0; i < transfer.blocks; ++i) {
    const BlockRef ref{transfer.ref.place, transfer.ref.index + i};
    const int32_t first = lanes ? 0 : (transfer.block + i) % blocks_;
    const int32_t end = lanes ? blocks_ : first + 1;
    for (int32_t block = first; block < end; ++block) {
      RZ_ASSIGN_OR_RETURN(const Piece piece, PieceOf(ref, block));
      pieces.push_back(piece);
    }
  }
  return pieces;
}

absl::StatusOr<SymbolicValue> SymbolicMemory::Read(const Piece& piece) const {
  const std::optional<SymbolicValue>& value = cells_[piece.cell];
  if (!value.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToString(piece.ref), " is read before it was written"));
  }
  // In an all_to_all a step's block only says how long it is; what arrives is checked by Write.
  if (claim_.goal != Goal::kAllToAll && value->block != piece.block) {
    return absl::FailedPreconditionError(absl::StrCat(ToString(piece.ref), " should hold block ",
                                                      piece.block, " and holds {", ToString(*value),
                                                      "}"));
  }
  return *value;
}

absl::Status SymbolicMemory::CheckWritable(const Piece& piece) const {
  if (piece.ref.place == Place::kInput) {
    return absl::FailedPreconditionError(absl::StrCat(ToString(piece.ref), " is an input"));
  }
  if (piece.ref.place != Place::kOutput) return absl::OkStatus();
  const bool right_block = claim_.goal == Goal::kAllToAll || piece.ref.index == piece.block;
  if (!right_block || !HasOutput(claim_, rank_, piece.ref.index)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "block ", piece.block, " does not belong into ", ToString(piece.ref), " of this rank"));
  }
  return absl::OkStatus();
}

absl::Status SymbolicMemory::Write(const Piece& piece, const SymbolicValue& value) {
  RZ_RETURN_IF_ERROR(CheckWritable(piece));
  if (FormatOf(piece.ref) != value.format) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToString(piece.ref), " has another format than {", ToString(value), "}"));
  }
  const bool belongs =
      claim_.goal != Goal::kAllToAll
          ? value.block == piece.block
          : piece.ref.place != Place::kOutput ||
                (value.block == rank_ && value.addends == std::vector<int32_t>{piece.ref.index});
  if (!belongs) {
    return absl::FailedPreconditionError(absl::StrCat(
        "{", ToString(value), "} does not belong into ", ToString(piece.ref), " of this rank"));
  }
  cells_[piece.cell] = value;
  return absl::OkStatus();
}

}  // namespace rz
