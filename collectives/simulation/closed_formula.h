// What a simulated call takes by a closed formula, where its algorithm has one: alpha + beta n +
// gamma n for each message on the longest path (Thakur, Rabenseifner and Gropp, 2005, section 3),
// for lanes that run side by side.
//
// An algorithm is steps of h hops, one after another; a hop sends b bytes of a lane and adds g. Of
// w lanes in flight, either each waits for its own messages, or the rank's link (its core) is
// always busy with one of them:
//
//   h * max(alpha + b beta + g gamma,  w b beta,  w g gamma)
//
// summed over the steps and over the lanes, w at a time. With one lane a ring's reduce_scatter is
// (N - 1) (alpha + S/N beta), which with more lanes is an upper bound: they hide each other's
// alpha.
//
// Halving has none where lanes side by side also add: its steps of many lengths keep links and
// cores busy in turns (about a tenth more than the above, simulated). None has one where some
// rank's block is empty: messages are left out then.
//
// Over hosts, for the ring and for pairwise exchange's reduce_scatter alone. Ring: a message waits
// for the mean of the links on its way round, and the slowest of them is what can be always busy.
// Pairwise: so can a host's interface, with what all its ranks send through it; where that is
// little less than what messages wait for themselves, both add up in no simple way and there is no
// formula, nor over racks.
//
// In stages, on hosts alike: a column's call by the above, over its share of the interface, between
// stages within the host that the cost model knows, slice after slice.
#ifndef RINGZERO_COLLECTIVES_SIMULATION_CLOSED_FORMULA_H_
#define RINGZERO_COLLECTIVES_SIMULATION_CLOSED_FORMULA_H_

#include <optional>

#include "collectives/simulation/simulated_call.h"
#include "runtime/transport/sim/sim_links.h"

namespace rz {

// None: the algorithm has no formula on these links, or cannot carry the call. Blocks count as long
// as the largest.
std::optional<SimTime> ClosedFormula(const SimulatedCall& call);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SIMULATION_CLOSED_FORMULA_H_
