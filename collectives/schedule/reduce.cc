// Ranks of the trees are numbered from the root: v = (rank - root) mod N.
//
// Binomial: v receives from v + d for d = 1, 2, 4, ... below the lowest one bit of v (for the root
// N), all in flight together, adds them in that order, and sends to v without its lowest one bit.
// The child at distance 2^k has at most k children, so k + 1 roundings at most are behind its sum
// when it has been added.
//
// Chain: v = 1 sends its input; every other rank receives the sum of those before it, adds its own
// input and passes it on to v + 1, the last of them to the root, which finishes.
#include "collectives/schedule/reduce.h"

#include <utility>
#include <vector>

#include "collectives/schedule/canonical_sum.h"
#include "collectives/schedule/gather.h"
#include "collectives/schedule/rank_arithmetic.h"

namespace rz {
namespace {

Schedule OfOneRank() {
  Schedule schedule;
  schedule.rounds.push_back({{}, {{LocalKind::kFinish, 0, Output(0), Input(0), {}}}});
  return schedule;
}

// Only the root has an output: what stands in output[rank] elsewhere goes to a slot of its own.
BlockRef MoveOutputToSlot(Schedule& schedule, int32_t rank) {
  Schedule larger;
  larger.wire_slots = schedule.wire_slots + 1;
  schedule.Append(std::move(larger));
  const BlockRef slot = Scratch(schedule.wire_slots - 1);
  const auto move = [&](BlockRef& ref) {
    if (ref == Output(rank)) ref = slot;
  };
  for (Round& round : schedule.rounds) {
    for (Transfer& transfer : round.transfers) move(transfer.ref);
    for (LocalStep& step : round.local) {
      move(step.dst);
      move(step.a);
      move(step.b);
    }
  }
  return slot;
}

}  // namespace

Schedule ReduceScatterGather(int32_t rank, int32_t world, int32_t root, Schedule reduce_scatter) {
  const BlockRef own = rank == root ? Output(rank) : MoveOutputToSlot(reduce_scatter, rank);
  AppendDirectGather(reduce_scatter, rank, world, root, own);
  return reduce_scatter;
}

ScheduleCost ReduceScatterGatherCost(int32_t world, const ScheduleCost& reduce_scatter) {
  ScheduleCost gather = DirectGatherCost(world);
  gather.copied_blocks = 0;  // the root's block is in its place
  return reduce_scatter + gather;
}

Schedule DirectReduce(int32_t rank, int32_t world, int32_t root, Format partials) {
  if (world == 1) return OfOneRank();
  Schedule schedule;
  if (rank != root) {
    schedule.lane_slots = 1;
    Round pack;
    for (int32_t block = 0; block < world; ++block) {
      pack.local.push_back({LocalKind::kCopy, block, LaneSlot(0), Input(block), {}});
    }
    schedule.rounds.push_back(std::move(pack));
    schedule.rounds.push_back({{{TransferKind::kSend, root, rank, LaneSlot(0)}}, {}});
    return schedule;
  }
  schedule.lane_slots = world - 1;
  if (world > 2) {
    (partials == Format::kAccumulator ? schedule.accumulator_slots : schedule.wire_slots) = 1;
  }
  const auto slot_of = [&](int32_t source) { return RankAt(source, -root, world) - 1; };
  for (int32_t distance = 1; distance < world; ++distance) {
    if (distance % kRootWindow == 1) schedule.rounds.emplace_back();
    const int32_t source = RankAt(root, distance, world);
    schedule.rounds.back().transfers.push_back(
        {TransferKind::kRecv, source, source, LaneSlot(slot_of(source))});
  }
  for (int32_t block = 0; block < world; ++block) {
    AppendCanonicalSum(schedule.rounds.back().local, block, world, Scratch(0), [&](int32_t source) {
      return source == root ? Input(block) : LaneSlot(slot_of(source));
    });
  }
  return schedule;
}

ScheduleCost DirectReduceCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = world > 1 ? 1 : 0;
  cost.messages = world - 1;
  cost.wire_blocks = int64_t{world} * (world - 1);
  cost.reduced_blocks = int64_t{world} * (world - 1);
  cost.copied_blocks = world;
  return cost;
}

Schedule BinomialReduce(int32_t rank, int32_t world, int32_t root) {
  Schedule schedule = world == 1 ? OfOneRank() : Schedule{};
  schedule.one_block = true;
  if (world == 1) return schedule;
  const int32_t position = RankAt(rank, -root, world);
  BlockRef sum = Input(0);
  Round receive;
  int32_t distance = 1;
  for (; position + distance < world && (position & distance) == 0; distance *= 2) {
    const BlockRef slot = Scratch(schedule.wire_slots++);
    receive.transfers.push_back({TransferKind::kRecv, RankAt(rank, distance, world), 0, slot});
    const bool child_is_leaf = distance == 1 || position + distance + 1 == world;
    receive.local.push_back({LocalKind::kReduce, 0, Scratch(0), slot, sum,
                             /*a_is_input=*/child_is_leaf, /*b_is_input=*/sum == Input(0)});
    sum = Scratch(0);
  }
  if (!receive.transfers.empty()) schedule.rounds.push_back(std::move(receive));
  if (rank == root) {
    LocalStep& last = schedule.rounds.back().local.back();
    last.kind = LocalKind::kReduceFinish;
    last.dst = Output(0);
    return schedule;
  }
  const int32_t parent = RankAt(rank, -(position & -position), world);
  schedule.rounds.push_back({{{TransferKind::kSend, parent, 0, sum}}, {}});
  return schedule;
}

ScheduleCost BinomialReduceCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = FloorLog2(world);
  cost.messages = CeilLog2(world);
  cost.wire_blocks = cost.messages;
  cost.reduced_blocks = cost.messages;
  cost.copied_blocks = world == 1 ? 1 : 0;
  return cost;
}

Schedule ChainReduce(int32_t rank, int32_t world, int32_t root, Format partials) {
  Schedule schedule = world == 1 ? OfOneRank() : Schedule{};
  schedule.one_block = true;
  if (world == 1) return schedule;
  const bool widened = partials == Format::kAccumulator;
  const bool first = rank == RankAt(root, 1, world);
  BlockRef sum = Scratch(0);
  if (!first || widened) (widened ? schedule.accumulator_slots : schedule.wire_slots) = 1;
  if (!first) {
    const int32_t previous = RankAt(rank, -1, world);
    const bool sends_input = previous == RankAt(root, 1, world) && !widened;
    const bool last = rank == root;
    schedule.rounds.push_back(
        {{{TransferKind::kRecv, previous, 0, sum}},
         {{last ? LocalKind::kReduceFinish : LocalKind::kReduce, 0, last ? Output(0) : sum, sum,
           Input(0), /*a_is_input=*/sends_input}}});
  } else if (widened) {
    schedule.rounds.push_back({{}, {{LocalKind::kWiden, 0, sum, Input(0), {}}}});
  } else {
    sum = Input(0);
  }
  if (rank != root) {
    schedule.rounds.push_back({{{TransferKind::kSend, RankAt(rank, 1, world), 0, sum}}, {}});
  }
  return schedule;
}

ScheduleCost ChainReduceCost(int32_t world, Format partials) {
  ScheduleCost cost;
  const bool widened = partials == Format::kAccumulator && world > 1;
  cost.hops = world - 1;
  cost.messages = world > 1 ? 1 : 0;
  (widened ? cost.accumulator_blocks : cost.wire_blocks) = cost.messages;
  cost.reduced_blocks = cost.messages;
  cost.copied_blocks = world == 1 || widened ? 1 : 0;
  return cost;
}

}  // namespace rz
