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
  int32_t block = 0;  // of the input it comes from
  Format format = Format::kWire;
  std::vector<int32_t> addends;  // ranks whose inputs were added, in order
  int32_t roundings = 0;         // to the wire's dtype, that the worst of the inputs went through
  bool multiplied = false;       // by the factor of premul_sum; false for an input as it was given
  bool finished = false;         // divided and rounded: takes no further addend

  friend bool operator==(const SymbolicValue&, const SymbolicValue&) = default;
};

// "block 3 (wire): ranks 1, 2, 0; 1 rounding; multiplied; finished".
std::string ToString(const SymbolicValue& value);

// What a local step leaves in a destination of `format`. `b` is only read by reductions.
//   FailedPrecondition  the operands are of different blocks, one is finished, b is not wire, an
//                       operand is an input and not said to be one or the other way round
absl::StatusOr<SymbolicValue> Apply(const LocalStep& step, const SymbolicValue& a,
                                    const SymbolicValue& b, Format format);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_SYMBOLIC_VALUE_H_
