#include "collectives/simulation/stepper.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

constexpr int64_t kMessagesBetweenReports = int64_t{1} << 18;
constexpr double kPicosecondsInSecond = 1e12;

}  // namespace

Stepper::Stepper(const SharedSchedules* schedules, absl::Span<const Plan> plans, Traffic* traffic,
                 int lanes_in_flight, double reduce_bandwidth, absl::Span<const int> members)
    : schedules_(*schedules),
      plans_(plans),
      traffic_(*traffic),
      members_(members),
      add_per_byte_(reduce_bandwidth > 0 ? kPicosecondsInSecond / reduce_bandwidth : 0),
      ranks_(schedules->world()) {
  const auto lanes = static_cast<size_t>(std::min<int64_t>(lanes_in_flight, plans[0].lane_count()));
  for (RankState& rank : ranks_) rank.slots.resize(lanes);
}

const std::vector<Round>& Stepper::RoundsOf(int rank) const {
  return schedules_.schedule(schedules_.IndexOf(rank)).rounds;
}

int64_t Stepper::BytesOf(const LaneSlot& slot, const Transfer& transfer) const {
  return IsData(transfer.kind) ? static_cast<int64_t>(slot.memory.ByteCountOf(transfer)) : 0;
}

absl::StatusOr<SimTime> Stepper::Run(const std::function<void(int64_t)>& progress) {
  const int world = schedules_.world();
  for (int rank = 0; rank < world; ++rank) traffic_.MakeDue(rank);
  int64_t next_report = kMessagesBetweenReports;
  SimTime end = 0;
  while (true) {
    const int done = ranks_done_;
    for (int rank : traffic_.TakeDue()) Move(rank);
    if (ranks_done_ > done) end = traffic_.now();
    if (!failure_.ok()) return failure_;
    if (ranks_done_ == world) return end;
    if (!traffic_.Step()) return Stuck();
    if (progress != nullptr && traffic_.delivered() >= next_report) {
      progress(traffic_.delivered());
      next_report = traffic_.delivered() + kMessagesBetweenReports;
    }
  }
}

void Stepper::OnSent(const Traffic::Message& message) { Finish(message.source, message.slot); }

void Stepper::OnTimer(const Traffic::Timer& timer) { Finish(timer.rank, timer.slot); }

void Stepper::Finish(int rank, int slot) {
  if (--ranks_[rank].slots[slot].pending == 0) ranks_[rank].ready.push_back(slot);
  traffic_.MakeDue(MemberOf(rank));
}

void Stepper::SetThrough(int rank) {
  ranks_[rank].is_through = true;
  ++ranks_done_;
}

void Stepper::OnDelivered(const Traffic::Message& message) {
  RankState& rank = ranks_[message.destination];
  for (size_t s = 0; s < rank.slots.size(); ++s) {
    LaneSlot& slot = rank.slots[s];
    if (slot.lane != message.lane || slot.round < 0) continue;
    const std::vector<Transfer>& transfers = RoundsOf(message.destination)[slot.round].transfers;
    for (size_t i = 0; i < transfers.size(); ++i) {
      if (slot.awaiting[i] == 0) continue;
      const Transfer transfer = schedules_.Of(message.destination, transfers[i]);
      if (transfer.peer != message.source) continue;
      if (BytesOf(slot, transfer) != message.bytes) {
        failure_ = absl::InternalError(
            absl::StrCat("rank ", message.destination, " expects ", BytesOf(slot, transfer),
                         " bytes from rank ", message.source, " in lane ", message.lane, ", round ",
                         slot.round, ", not ", message.bytes));
      }
      slot.awaiting[i] = 0;
      Finish(message.destination, static_cast<int>(s));
      return;
    }
  }
  rank.early.push_back({message.source, message.lane, message.bytes});
}

void Stepper::Move(int rank) {
  RankState& state = ranks_[rank];
  do {
    working_.swap(state.met);
    for (int slot : working_) {
      if (--state.slots[slot].pending == 0) state.ready.push_back(slot);
    }
    working_.clear();
    working_.swap(state.ready);
    for (int slot : working_) Advance(rank, slot);
    working_.clear();
    while (AdmitLane(rank)) {
    }
  } while (!state.met.empty() || !state.ready.empty());
}

bool Stepper::AdmitLane(int rank) {
  RankState& state = ranks_[rank];
  const Plan& plan = plans_[schedules_.IndexOf(rank)];
  if (state.next_lane == plan.lane_count()) {
    if (plan.lane_count() == 0 && !state.is_through) SetThrough(rank);
    return false;
  }
  const auto free = std::find_if(state.slots.begin(), state.slots.end(),
                                 [](const LaneSlot& slot) { return slot.lane < 0; });
  if (free == state.slots.end()) return false;
  free->lane = state.next_lane++;
  free->memory = {&plan, plan.At(free->lane)};
  free->round = -1;
  free->pending = 0;
  free->has_added = false;
  Advance(rank, static_cast<int>(free - state.slots.begin()));
  return true;
}

void Stepper::Advance(int rank, int slot_index) {
  RankState& state = ranks_[rank];
  LaneSlot& slot = state.slots[slot_index];
  const std::vector<Round>& rounds = RoundsOf(rank);
  while (slot.pending == 0) {
    if (!slot.has_added && !Add(rank, slot_index)) return;
    slot.has_added = false;
    if (++slot.round == static_cast<int32_t>(rounds.size())) {
      slot.lane = -1;
      if (++state.lanes_done == plans_[0].lane_count()) SetThrough(rank);
      return;
    }
    PostRound(rank, slot_index);
  }
}

bool Stepper::Add(int rank, int slot_index) {
  if (add_per_byte_ == 0) return true;
  RankState& state = ranks_[rank];
  LaneSlot& slot = state.slots[slot_index];
  int64_t elements = 0;
  if (slot.round >= 0) {
    for (const LocalStep& step : RoundsOf(rank)[slot.round].local) {
      if (step.kind != LocalKind::kReduce && step.kind != LocalKind::kReduceFinish) continue;
      elements += slot.memory.CountOf(schedules_.Of(rank, step));
    }
  }
  const auto bytes =
      static_cast<double>(elements) * static_cast<double>(SizeOf(plans_[0].arithmetic.dtype));
  SimTime& busy_until = traffic_.BusyUntil(MemberOf(rank));
  busy_until = std::max(busy_until, traffic_.now()) + std::llround(bytes * add_per_byte_);
  if (busy_until == traffic_.now()) return true;
  slot.has_added = true;
  slot.pending = 1;
  traffic_.SetTimer(busy_until, {this, rank, slot_index});
  return false;
}

void Stepper::PostRound(int rank, int slot_index) {
  LaneSlot& slot = ranks_[rank].slots[slot_index];
  const std::vector<Transfer>& transfers = RoundsOf(rank)[slot.round].transfers;
  slot.awaiting.assign(transfers.size(), 0);
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Transfer transfer = schedules_.Of(rank, transfers[i]);
    const int64_t bytes = BytesOf(slot, transfer);
    if (bytes == 0 && IsData(transfer.kind)) continue;
    ++slot.pending;
    if (IsOutgoing(transfer.kind)) {
      Send(rank, slot_index, transfer, bytes);
    } else {
      Receive(rank, slot_index, i, transfer, bytes);
    }
  }
}

void Stepper::Send(int rank, int slot, const Transfer& transfer, int64_t bytes) {
  traffic_.Send(MemberOf(rank), MemberOf(transfer.peer),
                {this, rank, slot, transfer.peer, ranks_[rank].slots[slot].lane, bytes});
}

void Stepper::Receive(int rank, int slot, size_t index, const Transfer& transfer, int64_t bytes) {
  RankState& state = ranks_[rank];
  const int64_t lane = state.slots[slot].lane;
  const auto early =
      std::find_if(state.early.begin(), state.early.end(), [&](const EarlyMessage& message) {
        return message.source == transfer.peer && message.lane == lane;
      });
  if (early == state.early.end()) {
    state.slots[slot].awaiting[index] = 1;
    return;
  }
  if (early->bytes != bytes) {
    failure_ =
        absl::InternalError(absl::StrCat("rank ", rank, " expects ", bytes, " bytes from rank ",
                                         transfer.peer, " in lane ", lane, ", not ", early->bytes));
  }
  state.early.erase(early);
  state.met.push_back(slot);
}

absl::Status Stepper::Stuck() const {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    for (const LaneSlot& slot : ranks_[rank].slots) {
      if (slot.lane < 0) continue;
      return absl::InternalError(absl::StrCat(
          "nothing is under way, and rank ", rank, " waits in lane ", slot.lane, ", round ",
          slot.round, "; ", ranks_done_, " of ", ranks_.size(), " ranks are through"));
    }
  }
  return absl::InternalError("nothing is under way, and not all ranks are through");
}

}  // namespace rz
