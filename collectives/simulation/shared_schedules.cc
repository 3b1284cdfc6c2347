#include "collectives/simulation/shared_schedules.h"

#include <algorithm>
#include <utility>

#include "collectives/schedule_cache.h"

namespace rz {
namespace {

constexpr int32_t kRoot = 0;

}  // namespace

SharedSchedules::SharedSchedules(Collective collective, Algorithm algorithm, Format partials,
                                 int32_t world)
    : one_block_(TraitsOf(collective, algorithm).one_block), choices_(world) {
  schedules_.push_back(BuildSchedule(collective, algorithm, partials, 0, world, kRoot));
  for (int32_t rank = 1; rank < world; ++rank) {
    Schedule own = BuildSchedule(collective, algorithm, partials, rank, world, kRoot);
    if (IsShifted(own, rank)) {
      choices_[rank] = {0, rank};
    } else {
      choices_[rank] = {schedules_.size(), 0};
      schedules_.push_back(std::move(own));
    }
  }
}

int32_t SharedSchedules::Shifted(int32_t number, int32_t shift) const {
  const int32_t sum = number + shift;
  return sum < world() ? sum : sum - world();
}

BlockRef SharedSchedules::Shifted(BlockRef ref, int32_t shift) const {
  const bool is_block = ref.place == Place::kInput || ref.place == Place::kOutput;
  if (is_block && !one_block_) ref.index = Shifted(ref.index, shift);
  return ref;
}

Transfer SharedSchedules::Shifted(Transfer transfer, int32_t shift) const {
  if (shift == 0) return transfer;
  transfer.peer = Shifted(transfer.peer, shift);
  if (IsData(transfer.kind) && !one_block_) transfer.block = Shifted(transfer.block, shift);
  transfer.ref = Shifted(transfer.ref, shift);
  return transfer;
}

LocalStep SharedSchedules::Shifted(LocalStep step, int32_t shift) const {
  if (shift == 0) return step;
  if (!one_block_) step.block = Shifted(step.block, shift);
  step.dst = Shifted(step.dst, shift);
  step.a = Shifted(step.a, shift);
  if (step.kind == LocalKind::kReduce || step.kind == LocalKind::kReduceFinish) {
    step.b = Shifted(step.b, shift);
  }
  return step;
}

bool SharedSchedules::IsShifted(const Schedule& own, int32_t shift) const {
  const Schedule& first = schedules_.front();
  if (own.rounds.size() != first.rounds.size() || own.wire_slots != first.wire_slots ||
      own.accumulator_slots != first.accumulator_slots || own.lane_slots != first.lane_slots) {
    return false;
  }
  const auto as_own = [&](const auto& of_first, const auto& of_own) {
    return of_first.size() == of_own.size() &&
           std::equal(of_first.begin(), of_first.end(), of_own.begin(),
                      [&](const auto& a, const auto& b) { return Shifted(a, shift) == b; });
  };
  for (size_t i = 0; i < own.rounds.size(); ++i) {
    if (!as_own(first.rounds[i].transfers, own.rounds[i].transfers) ||
        !as_own(first.rounds[i].local, own.rounds[i].local)) {
      return false;
    }
  }
  return true;
}

int64_t SharedSchedules::MessagesOfLane() const {
  std::vector<int64_t> sent;
  sent.reserve(schedules_.size());
  for (const Schedule& schedule : schedules_) {
    int64_t count = 0;
    for (const Round& round : schedule.rounds) {
      count += std::count_if(round.transfers.begin(), round.transfers.end(),
                             [](const Transfer& t) { return IsOutgoing(t.kind); });
    }
    sent.push_back(count);
  }
  int64_t messages = 0;
  for (const Choice& choice : choices_) messages += sent[choice.index];
  return messages;
}

}  // namespace rz
