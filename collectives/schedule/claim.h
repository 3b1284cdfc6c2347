// What a set of schedules claims to be, and what that means for each rank and block: where inputs
// are, which outputs are asked for, what is the same memory, and what must stand there in the end.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_CLAIM_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_CLAIM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/symbolic_value.h"

namespace rz {

enum class Goal : uint8_t {
  kReduceScatter,
  kAllGather,
  kAllReduce,
  kBroadcast,
  kBarrier,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
};

enum class Order : uint8_t {
  kCanonical,  // block b from rank b + 1 round to b; a lane of one block: from root + 1 to the root
  kAny,        // every rank once
};

// When a send is complete.
enum class Sends : uint8_t {
  kRendezvous,  // with its receive: what may deadlock does
  kEager,       // at once
};

struct Claim {
  Goal goal = Goal::kReduceScatter;
  int32_t root = 0;       // of broadcast, reduce, gather and scatter
  bool in_place = false;  // NCCL's forms; a broadcast is always in place at its root

  // Reductions in canonical order: kAccumulator claims one rounding, kWire one at every addition.
  // In a world of one there is none.
  Format partials = Format::kAccumulator;

  Order order = Order::kCanonical;
  int32_t most_roundings = 0;  // Order::kAny: that any input goes through

  Sends sends = Sends::kRendezvous;
};

// Blocks of a lane.
int32_t BlocksOf(const Claim& claim, int32_t world, bool one_block);

bool HasInput(const Claim& claim, int32_t rank, int32_t block);
bool HasOutput(const Claim& claim, int32_t rank, int32_t block);

// Input and output of the block are the same memory on this rank.
bool IsInPlace(const Claim& claim, int32_t rank, int32_t block);

// FailedPrecondition: `found` is not what the output of `block` on `rank` should be.
absl::Status CheckResult(const Claim& claim, int32_t rank, int32_t world, bool one_block,
                         int32_t block, const SymbolicValue& found);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_CLAIM_H_
