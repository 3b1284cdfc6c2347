// Which algorithms can carry which collective, what each needs, and what RZ_ALGO asks for.
// selection.h chooses among them.
#ifndef RINGZERO_COLLECTIVES_ALGORITHM_H_
#define RINGZERO_COLLECTIVES_ALGORITHM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/collective.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/schedule_cost.h"
#include "runtime/base/dtype.h"

namespace rz {

enum class Algorithm : uint8_t {
  kRing,      // deterministic mode: partial sums in the accumulator's dtype; fast: the wire's
  kRingWire,  // partial sums in the wire's dtype, rounded at every hop: fast mode only
  kPairwise,  // inputs travel, their owner sums them; or blocks straight to their place
  kHalving,   // recursive halving, and doubling where everybody needs the result
  kBruck,     // everybody's data at everybody in log N messages
  kDirect,    // straight to or from the root
  kBinomial,  // tree
  kChain,     // pipeline from rank to rank
  kScatterAllGather,  // the root scatters, a ring gathers
  kDissemination,     // of signals
  kShared,            // loads and stores, among ranks that share memory
  kHierarchical,      // those within each host, messages in columns of one rank a host
};

inline constexpr size_t kAlgorithmCount = 12;

std::string_view NameOf(Algorithm algorithm);  // "ring", "ring_wire", ...
std::ostream& operator<<(std::ostream& os, Algorithm algorithm);

// Slots of scratch a lane may need, as a bound that is the same on all ranks.
enum class Footprint : uint8_t { kConstant, kWorld, kWorldSquared };

struct AlgorithmTraits {
  Collective collective;
  Algorithm algorithm;

  // Sums in the canonical order and rounds once in deterministic mode, or adds nothing.
  bool canonical = true;

  // As in Schedule, of any rank's.
  bool one_block = false;
  bool unsliced = false;
  bool equal_blocks = false;
  Footprint footprint = Footprint::kConstant;

  // Null: it has no schedule, and needs memory that all ranks share (shared/), or those of one
  // host (hierarchy/).
  ScheduleCost (*cost)(int32_t world, Format partials) = nullptr;

  bool needs_shared_memory() const { return algorithm == Algorithm::kShared; }
  bool needs_hosts() const { return algorithm == Algorithm::kHierarchical; }
};

// All that have schedules, those of one collective next to each other.
absl::Span<const AlgorithmTraits> AllAlgorithms();

// Of kHierarchical; null: the collective does not go that way.
const AlgorithmTraits* HierarchicalTraitsOf(Collective collective);

// Of kShared, which every collective has, of kHierarchical where it has that, or of a pair among
// AllAlgorithms.
const AlgorithmTraits& TraitsOf(Collective collective, Algorithm algorithm);

// Format in which partial sums are kept. Where a dtype is its own accumulator there is only one.
Format PartialsOf(Algorithm algorithm, DType dtype, NumericMode mode);

// The same of a call of `op`: what a function of the caller's combines is kept in the wire's dtype.
Format PartialsOf(Algorithm algorithm, DType dtype, ReduceOp op, NumericMode mode);

// The order in which inputs are combined, and so the algorithm, can change the result. Of a
// function that is not known.
bool OrderMatters(DType dtype, ReduceOp op);

// An algorithm a collective, where one is asked for.
using WantedAlgorithms = std::array<std::optional<Algorithm>, kCollectiveCount>;

// `wanted` is `collective:algorithm[,...]` as in RZ_ALGO; empty: none is.
//   InvalidArgument  a token that is not understood (the message lists what is, and the nearest
//                    name), a collective named twice, or an algorithm that breaks the mode
absl::StatusOr<WantedAlgorithms> ParseAlgorithms(std::string_view wanted, NumericMode mode);

// InvalidArgument: the algorithm cannot keep the promise of deterministic mode.
absl::Status CheckMode(const AlgorithmTraits& traits, NumericMode mode);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_ALGORITHM_H_
