// What an algorithm is expected to cost: Hockney's alpha + beta n with a term for arithmetic
// (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
// 2005, section 3), for lanes that follow each other.
//
// Only values that all ranks share go in, so all ranks come to the same figures. They rank the
// algorithms against each other; as predictions of time they are rough, and they are for a core a
// rank (docs/decisions/0010 has them beside measured times).
#ifndef RINGZERO_COLLECTIVES_COST_MODEL_H_
#define RINGZERO_COLLECTIVES_COST_MODEL_H_

#include <cstdint>
#include <ostream>
#include <string_view>

#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/schedule/schedule_cost.h"

namespace rz {

// What carries the messages between ranks, as all of them say: the slowest link there is.
enum class LinkKind : uint8_t {
  kSharedMemory,  // all ranks on one host
  kNetwork,       // TCP somewhere
};
std::string_view NameOf(LinkKind link);
std::ostream& operator<<(std::ostream& os, LinkKind link);

struct CostConstants {
  double alpha_ns;    // from a send to its receive, of a message of no bytes
  double message_ns;  // of a rank's time for each further message it has a part in
  double beta_ns;     // a byte sent or received
  double gamma_ns;    // a byte of the wire's dtype added
  double copy_ns;     // a byte copied within memory
  double step_ns;     // a local step, whatever its bytes
};

// The constants of each link kind; see the .cc for how they were measured. `cores_are_few`: ranks
// of a host outnumber its cores, so they give them away instead of sleeping.
const CostConstants& ConstantsOf(LinkKind link, bool cores_are_few);

// How a call is cut.
struct CostShape {
  int64_t block_bytes = 0;  // a block over all lanes, the wire's dtype; the largest
  int64_t slice_bytes = 0;  // of it, what one lane carries
  int64_t lanes = 0;
  double filled_blocks = 1;      // the share of a lane's blocks that have any element
  double accumulator_ratio = 1;  // size of an accumulator, in elements of the wire's dtype
};

absl::Duration PredictTime(const ScheduleCost& cost, const CostShape& shape,
                           const CostConstants& constants);

// The same for ranks that work through memory they share, whose blocks have `block_bytes` each.
absl::Duration PredictSharedTime(Collective collective, int world, int64_t block_bytes);

// What it takes beyond that, where cores are few, until each rank of a host has had its turn.
inline constexpr absl::Duration kTurnsOnFewCores = absl::Microseconds(22);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_COST_MODEL_H_
