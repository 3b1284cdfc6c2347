// Hops are the time at which the last rank is through where a message takes 1 and nothing else
// takes any: a message posted at t arrives at t + 1; a round ends when its receives have arrived.
// Ranks are advanced as far as messages posted allow, until all are through.
#include "collectives/schedule/schedule_cost.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace rz {
namespace {

struct Traffic {
  int64_t messages = 0;
  int64_t wire_blocks = 0;
  int64_t accumulator_blocks = 0;
};

ScheduleCost CountOf(const Schedule& schedule, int32_t world) {
  ScheduleCost cost;
  Traffic sent;
  Traffic received;
  for (const Round& round : schedule.rounds) {
    for (const Transfer& transfer : round.transfers) {
      Traffic& traffic = IsOutgoing(transfer.kind) ? sent : received;
      ++traffic.messages;
      if (transfer.kind == TransferKind::kSignal || transfer.kind == TransferKind::kAwait) continue;
      const bool lanes = transfer.ref.place == Place::kLaneSlot && !schedule.one_block;
      const bool wire = schedule.FormatOf(transfer.ref) == Format::kWire;
      (wire ? traffic.wire_blocks : traffic.accumulator_blocks) +=
          int64_t{transfer.blocks} * (lanes ? world : 1);
    }
    for (const LocalStep& step : round.local) {
      const bool adds = step.kind == LocalKind::kReduce || step.kind == LocalKind::kReduceFinish;
      ++(adds ? cost.reduced_blocks : cost.copied_blocks);
    }
  }
  cost.messages = std::max(sent.messages, received.messages);
  cost.wire_blocks = std::max(sent.wire_blocks, received.wire_blocks);
  cost.accumulator_blocks = std::max(sent.accumulator_blocks, received.accumulator_blocks);
  return cost;
}

class HopCounter {
 public:
  explicit HopCounter(absl::Span<const Schedule> schedules)
      : schedules_(schedules),
        ranks_(schedules.size()),
        arrivals_(schedules.size() * schedules.size()) {}

  int32_t Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < ranks_.size(); ++rank) moved |= Advance(rank);
    }
    int32_t last = 0;
    for (const RankState& rank : ranks_) last = std::max(last, rank.time);
    return last;
  }

 private:
  struct RankState {
    size_t round = 0;
    size_t received = 0;  // receives of the round that have arrived
    bool posted = false;
    int32_t time = 0;     // at which the round began
    int32_t arrived = 0;  // latest arrival of the round
  };

  // In order, and how many of them were taken.
  struct Arrivals {
    std::vector<int32_t> times;
    size_t taken = 0;
  };

  bool Advance(size_t rank) {
    RankState& state = ranks_[rank];
    const std::vector<Round>& rounds = schedules_[rank].rounds;
    bool moved = false;
    while (state.round < rounds.size()) {
      const std::vector<Transfer>& transfers = rounds[state.round].transfers;
      if (!state.posted) {
        for (const Transfer& transfer : transfers) {
          if (!IsOutgoing(transfer.kind)) continue;
          arrivals_[rank * ranks_.size() + transfer.peer].times.push_back(state.time + 1);
        }
        state.posted = true;
        moved = true;
      }
      if (!Receive(rank, transfers)) break;
      state = {state.round + 1, 0, false, std::max(state.time, state.arrived), 0};
      moved = true;
    }
    return moved;
  }

  // Takes what has arrived of the round, in the order of its transfers; true when all has.
  bool Receive(size_t rank, const std::vector<Transfer>& transfers) {
    RankState& state = ranks_[rank];
    for (; state.received < transfers.size(); ++state.received) {
      const Transfer& transfer = transfers[state.received];
      if (IsOutgoing(transfer.kind)) continue;
      Arrivals& arrivals = arrivals_[transfer.peer * ranks_.size() + rank];
      if (arrivals.taken == arrivals.times.size()) return false;
      state.arrived = std::max(state.arrived, arrivals.times[arrivals.taken++]);
    }
    return true;
  }

  const absl::Span<const Schedule> schedules_;
  std::vector<RankState> ranks_;
  std::vector<Arrivals> arrivals_;
};

}  // namespace

ScheduleCost operator+(const ScheduleCost& a, const ScheduleCost& b) {
  return {a.hops + b.hops,
          a.messages + b.messages,
          a.wire_blocks + b.wire_blocks,
          a.accumulator_blocks + b.accumulator_blocks,
          a.reduced_blocks + b.reduced_blocks,
          a.copied_blocks + b.copied_blocks};
}

ScheduleCost CostOf(absl::Span<const Schedule> schedules) {
  ScheduleCost most;
  for (const Schedule& schedule : schedules) {
    const ScheduleCost cost = CountOf(schedule, static_cast<int32_t>(schedules.size()));
    most.messages = std::max(most.messages, cost.messages);
    most.wire_blocks = std::max(most.wire_blocks, cost.wire_blocks);
    most.accumulator_blocks = std::max(most.accumulator_blocks, cost.accumulator_blocks);
    most.reduced_blocks = std::max(most.reduced_blocks, cost.reduced_blocks);
    most.copied_blocks = std::max(most.copied_blocks, cost.copied_blocks);
  }
  most.hops = HopCounter(schedules).Run();
  return most;
}

std::ostream& operator<<(std::ostream& os, const ScheduleCost& cost) {
  return os << "{hops " << cost.hops << ", messages " << cost.messages << ", wire blocks "
            << cost.wire_blocks << ", accumulator blocks " << cost.accumulator_blocks
            << ", reduced blocks " << cost.reduced_blocks << ", copied blocks "
            << cost.copied_blocks << "}";
}

}  // namespace rz
