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

// Measured by tests/integration/cost_constants_benchmark on a virtual machine of two cores (x86-64
// with AVX-512, UCX 1.13), the best of many runs, three times over:
//
//                                    alpha ns          message ns       beta ns/B
//   shared memory, a core a rank     119 .. 120        68 .. 72         0.045 .. 0.046
//   TCP on the loopback, likewise    4,393 .. 4,428    4,590 .. 4,621   0.87 .. 1.46
//   likewise, ranks that sleep       36,344 .. 51,117  9,358 .. 10,741  1.7 .. 2.7
//   a byte of 256 KiB                added 0.011 .. 0.012 ns, copied 0.008 ns
//   a local step                     41 .. 107 ns of float32, 46 .. 93 ns of bfloat16
//
// To alpha and message comes what a round and a transfer cost the executor: a call of one hop over
// shared memory takes 0.7 us, and each of 32 lanes instead of one 240 ns
// (predicted_time_benchmark). A network's ranks sleep while they wait.
constexpr CostConstants kShared = {.alpha_ns = 600,
                                   .message_ns = 200,
                                   .beta_ns = 0.046,
                                   .gamma_ns = 0.011,
                                   .copy_ns = 0.008,
                                   .step_ns = 50};
constexpr CostConstants kNetworked = {.alpha_ns = 36'500,
                                      .message_ns = 9'400,
                                      .beta_ns = 1.7,
                                      .gamma_ns = 0.011,
                                      .copy_ns = 0.008,
                                      .step_ns = 50};

// Two ranks on the one core of each of two hosts, TCP, the fastest of several runs: a ring of 8
// bytes takes 37 us for three hops, and stages take 58 us in place of the 13 of their one message
// (kTurnsOnFewCores).
constexpr CostConstants kNetworkedOnFewCores = [] {
  CostConstants constants = kNetworked;
  constants.alpha_ns = 13'000;
  return constants;
}();

// Through shared memory: until another core sees a store, and a byte read that another core has
// written (30 to 40 GB/s on the same machine).
constexpr double kFlagNs = 300;
constexpr double kSharedReadNs = 0.03;

}  // namespace

std::string_view NameOf(LinkKind link) {
  return link == LinkKind::kSharedMemory ? "shared memory" : "network";
}

std::ostream& operator<<(std::ostream& os, LinkKind link) { return os << NameOf(link); }

const CostConstants& ConstantsOf(LinkKind link, bool cores_are_few) {
  if (link == LinkKind::kSharedMemory) return kShared;
  return cores_are_few ? kNetworkedOnFewCores : kNetworked;
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
                             static_cast<double>((cost.reduced_blocks + cost.copied_blocks) *
                                                 std::max<int64_t>(shape.lanes, 1)) *
                                 shape.filled_blocks * constants.step_ns +
                             static_cast<double>(shape.block_bytes) *
                                 (static_cast<double>(cost.reduced_blocks) * constants.gamma_ns +
                                  static_cast<double>(cost.copied_blocks) * constants.copy_ns);
  return absl::Nanoseconds(nanoseconds);
}

absl::Duration PredictSharedTime(Collective collective, int world, int64_t block_bytes) {
  // Blocks a rank copies into slots, reads of others, and adds.
  const double others = world - 1;
  double copied = 1;
  double read = others;
  double added = 0;
  switch (collective) {
    case Collective::kBarrier:
      return absl::Nanoseconds(kFlagNs);
    case Collective::kReduceScatter:
      copied = others;
      added = others;
      break;
    case Collective::kAllReduce:
    case Collective::kReduce:
      copied = world;
      read = 2 * others;
      added = others;
      break;
    case Collective::kAllToAll:
    case Collective::kScatter:
      copied = others;
      break;
    case Collective::kBroadcast:
      read = 1;
      break;
    case Collective::kAllGather:
    case Collective::kGather:
      break;
  }
  const double per_byte =
      copied * kShared.copy_ns + read * kSharedReadNs + added * kShared.gamma_ns;
  return absl::Nanoseconds(2 * kFlagNs + static_cast<double>(block_bytes) * per_byte);
}

}  // namespace rz
