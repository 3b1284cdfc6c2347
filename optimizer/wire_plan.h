// WirePlan: payload bytes one rank must send in one step, from the plan alone; compared with the
// counters to the byte.
//
// Every collective here is bandwidth-optimal: each half (reduce_scatter, all_gather; an all_reduce
// is both) of E elements on N ranks sends (N-1) * E/N elements a rank. With P parameters, padding
// included, a step has these halves (Rajbhandari et al., "ZeRO", 2019, section 7):
//
//            reduce_scatter  spread sums  gather parameters
//   ddp      P               P            -
//   naive    P               P            P
//   1, 2     P               -            P
//   3        P               -            2P, or P where they are kept after forward
//
// and gradients that are reduced at each of A micro-steps are reduced (and spread) A times.
//
// Where N ranks are a group of G * N that shards the states, this is what goes within groups, and
// what a group has reduced is all-reduced over the G ranks with the same shard: two halves of P/N
// elements, (G-1) * P/(N G) of each from every rank (Zhang et al., "MiCS", 2022, section 3.4).
//
// What an element costs on the wire depends on the half: partial sums of a deterministic ring
// travel in the accumulator's type, other gradients in theirs, parameters in the working dtype, and
// between ranks that share memory nothing does.
#ifndef RINGZERO_OPTIMIZER_WIRE_PLAN_H_
#define RINGZERO_OPTIMIZER_WIRE_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/selection.h"
#include "optimizer/zero_config.h"
#include "runtime/base/dtype.h"

namespace rz {

// What a step sends, in elements of the padded flat space over all ranks of a group: multiples of
// all ranks.
struct WireShape {
  ZeroStage stage = ZeroStage::kOne;
  int world = 1;   // ranks that share the states
  int groups = 1;  // that have them
  DType gradient_dtype = DType::kBFloat16;
  int64_t reduced_elements = 0;   // of gradients
  int64_t gathered_elements = 0;  // of parameters; 0 in ddp
};

struct WirePlan {
  int64_t reduce_bytes = 0;   // gradients: reduce_scatter, or the first half of all_reduce
  int64_t spread_bytes = 0;   // gradients: the second half of all_reduce
  int64_t gather_bytes = 0;   // parameters: all_gather
  int64_t between_bytes = 0;  // gradients: among those who hold the same shard
  int64_t control_bytes = 0;  // the step's one agreed message
  std::string explanation;    // the formula with its numbers, one line

  int64_t payload_bytes() const {
    return reduce_bytes + spread_bytes + gather_bytes + between_bytes;
  }
};

// The step's collectives as they go.
struct WireRoutes {
  Carriage reduce;
  Carriage gather;
  Carriage replicas;  // of several groups
  Carriage control;
};

//   Unimplemented  a reduction or gathering that has no closed formula here; the message names it
absl::StatusOr<WirePlan> PlanWire(const WireShape& shape, const WireRoutes& routes);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_WIRE_PLAN_H_
