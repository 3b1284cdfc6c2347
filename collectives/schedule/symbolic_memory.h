// One rank's memory during verification: which pieces exist, which are the same memory (in-place
// forms), which may be written, and what they hold.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_SYMBOLIC_MEMORY_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_SYMBOLIC_MEMORY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/symbolic_value.h"
#include "collectives/schedule/verifier.h"

namespace rz {

class SymbolicMemory {
 public:
  // As `rank` of `world` calls the collective of `claim`: its inputs are there, all else is unset.
  SymbolicMemory(const Schedule& schedule, int32_t rank, int32_t world, const Claim& claim);

  // Identifies the piece of memory; two references with one cell are the same memory.
  //   FailedPrecondition  there is no such block or slot
  absl::StatusOr<int32_t> CellOf(BlockRef ref) const;

  //   FailedPrecondition  the piece was never written, or holds something else than `block`
  absl::StatusOr<SymbolicValue> Read(BlockRef ref, int32_t block) const;

  //   FailedPrecondition  the piece may not be written, or has another format than the value
  absl::Status Write(BlockRef ref, const SymbolicValue& value);

  // As Write, without doing it.
  absl::Status CheckWritable(BlockRef ref, int32_t block) const;

  Format FormatOf(BlockRef ref) const { return schedule_->FormatOf(ref); }

 private:
  bool Exists(BlockRef ref) const;
  bool IsOutputOfGoal(int32_t block) const;
  bool Aliases(int32_t block) const;

  const Schedule* schedule_;
  int32_t rank_;
  int32_t world_;
  int32_t blocks_;
  Claim claim_;
  std::vector<std::optional<SymbolicValue>> cells_;  // inputs, outputs, scratch
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_SYMBOLIC_MEMORY_H_
