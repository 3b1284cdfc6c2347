// What a piece of memory holds during verification: not a number but where the number came from.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_SYMBOLIC_VALUE_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_SYMBOLIC_VALUE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/schedule/schedule.h"

namespace rz {

struct SymbolicValue {
  int32_t block = 0;
  Format format = Format::kWire;
  std::vector<int32_t> addends;  // ranks whose inputs were added, in order
  int32_t roundings = 0;         // to the wire's dtype
  bool finished = false;         // divided and rounded: takes no further addend

  friend bool operator==(const SymbolicValue&, const SymbolicValue&) = default;
};

// "block 3 (wire): ranks 1, 2, 0; 1 rounding; finished".
std::string ToString(const SymbolicValue& value);

// op(a, b) kept in `format`; `finish` marks the last addition.
//   FailedPrecondition  the operands are of different blocks, one is finished, or b is not wire
absl::StatusOr<SymbolicValue> Reduce(const SymbolicValue& a, const SymbolicValue& b, Format format,
                                     bool finish);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_SYMBOLIC_VALUE_H_
