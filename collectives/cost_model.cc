// 1. The first lane runs alone. A chain of `hops` messages waits for alpha each, and its bytes pass
//    one after the other: those of the busiest rank, or where each rank passes the block on (a
//    chain has fewer blocks a rank than hops), one block a hop.
// 2. The other lanes follow in its wake. They cost the busiest rank's bytes and messages; the
//    latencies lie behind the lane before.
// 3. Sums and copies are the ranks' own time, all of it: the transport's copies leave no core idle
//    meanwhile.
#include "collectives/cost_model.h"

#include <algorithm>

namespace rz {
namespace {

// Measured with ranks as processes over UcxTransport, two ranks on two cores of a virtual machine
// (Intel Xeon, AVX-512), a busy neighbour on the same host: best of ten medians, so the figures are
// those of a calm machine. docs/tuning.md says how to measure another machine.
constexpr CostConstants kShared = {
    .alpha_ns = 900, .message_ns = 450, .beta_ns = 0.16, .gamma_ns = 0.06, .copy_ns = 0.08};
constexpr CostConstants kNetworked = {
    .alpha_ns = 18000, .message_ns = 6000, .beta_ns = 0.75, .gamma_ns = 0.06, .copy_ns = 0.08};

}  // namespace

std::string_view NameOf(LinkKind link) {
  return link == LinkKind::kSharedMemory ? "shared memory" : "network";
}

std::ostream& operator<<(std::ostream& os, LinkKind link) { return os << NameOf(link); }

const CostConstants& ConstantsOf(LinkKind link) {
  return link == LinkKind::kSharedMemory ? kShared : kNetworked;
}

absl::Duration PredictTime(const ScheduleCost& cost, const CostShape& shape,
                           const CostConstants& constants) {
  const double blocks = static_cast<double>(cost.wire_blocks) +
                        static_cast<double>(cost.accumulator_blocks) * shape.accumulator_ratio;
  const double per_hop =
      cost.accumulator_blocks > 0 && cost.wire_blocks == 0 ? shape.accumulator_ratio : 1;
  const auto slice = static_cast<double>(shape.slice_bytes);
  const double rest = static_cast<double>(shape.block_bytes) - slice;
  const double path_blocks = std::max(blocks, static_cast<double>(cost.hops) * per_hop);
  const auto further_messages = static_cast<double>(
      std::max<int64_t>(0, cost.messages * std::max<int64_t>(shape.lanes, 1) - cost.hops));

  const double nanoseconds = static_cast<double>(cost.hops) * constants.alpha_ns +
                             further_messages * constants.message_ns +
                             (path_blocks * slice + blocks * rest) * constants.beta_ns +
                             static_cast<double>(shape.block_bytes) *
                                 (static_cast<double>(cost.reduced_blocks) * constants.gamma_ns +
                                  static_cast<double>(cost.copied_blocks) * constants.copy_ns);
  return absl::Nanoseconds(nanoseconds);
}

}  // namespace rz
