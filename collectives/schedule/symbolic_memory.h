// One rank's memory during verification: which pieces exist, which are the same memory (in-place
// forms), which may be written, and what they hold.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_SYMBOLIC_MEMORY_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_SYMBOLIC_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/schedule/claim.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/symbolic_value.h"

namespace rz {

class SymbolicMemory {
 public:
  // A piece of memory a step names: a block of a buffer, a slot, or a block within a lane slot.
  struct Piece {
    BlockRef ref;
    int32_t block = 0;  // that it is to hold
    int32_t cell = 0;   // two pieces of one cell are the same memory
  };

  // As `rank` of `world` calls the collective of `claim`: its inputs are there, all else is unset.
  SymbolicMemory(const Schedule& schedule, int32_t rank, int32_t world, const Claim& claim);

  size_t cell_count() const { return cells_.size(); }

  //   FailedPrecondition  there is no such block or slot, or the schedule lacks the flag that
  //                       allows its use
  absl::StatusOr<Piece> PieceOf(BlockRef ref, int32_t block) const;

  // The pieces of a transfer of data, in the order in which they travel.
  //   FailedPrecondition  also: its run is no single stretch of memory
  absl::StatusOr<std::vector<Piece>> PiecesOf(const Transfer& transfer) const;

  //   FailedPrecondition  the piece was never written, or holds another block
  absl::StatusOr<SymbolicValue> Read(const Piece& piece) const;

  //   FailedPrecondition  the piece may not be written, or has another format than the value
  absl::Status Write(const Piece& piece, const SymbolicValue& value);

  // As Write, without doing it.
  absl::Status CheckWritable(const Piece& piece) const;

  Format FormatOf(BlockRef ref) const { return schedule_->FormatOf(ref); }

 private:
  int32_t SlotCount() const { return schedule_->wire_slots + schedule_->accumulator_slots; }
  bool Exists(BlockRef ref, int32_t block) const;
  absl::Status CheckRun(const Transfer& transfer) const;

  const Schedule* schedule_;
  int32_t rank_;
  int32_t world_;
  int32_t blocks_;
  Claim claim_;
  std::vector<std::optional<SymbolicValue>> cells_;  // inputs, outputs, scratch, lane slots
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_SYMBOLIC_MEMORY_H_
