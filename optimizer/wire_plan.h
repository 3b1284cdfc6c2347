// WirePlan: payload bytes one rank must send in one step, from the plan alone; compared with the
// counters to the byte.
//
// Every collective here is bandwidth-optimal: over a padded flat space of E elements on N ranks
// each half (reduce_scatter, all_gather) sends (N-1) * E/N elements a rank. What an element costs
// on the wire depends on the half: partial sums of a deterministic ring travel in the accumulator's
// type, everything else in the working dtype, and between ranks that share memory nothing does.
#ifndef RINGZERO_OPTIMIZER_WIRE_PLAN_H_
#define RINGZERO_OPTIMIZER_WIRE_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/selection.h"
#include "optimizer/zero_config.h"
#include "runtime/base/dtype.h"

namespace rz {

struct WirePlan {
  int64_t reduce_bytes = 0;   // gradients: reduce_scatter, or the first half of all_reduce
  int64_t gather_bytes = 0;   // parameters: all_gather; ddp: gradients, second half of all_reduce
  int64_t control_bytes = 0;  // the step's one agreed message
  std::string explanation;    // the formula with its numbers, one line

  int64_t payload_bytes() const { return reduce_bytes + gather_bytes; }
};

// The step's collectives as they go; all_gather of ddp is the second half of its all_reduce.
struct WireRoutes {
  Carriage reduce;
  Carriage gather;
  Carriage control;
};

//   Unimplemented  a reduction or gathering that has no closed formula here; the message names it
absl::StatusOr<WirePlan> PlanWire(ZeroStage stage, int world, int64_t padded_elements, DType dtype,
                                  const WireRoutes& routes);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_WIRE_PLAN_H_
