// Stepper: what simulated_call.h promises. The executor's rules without its memory: lanes admitted
// in order, so many in flight; a lane posts all transfers of its round, and with the last of them
// done does its additions and goes on.
//
// All that happens at one moment happens before any rank moves; then those move that were told of
// something, in the order of ranks, as in SimWorld::Run.
//
// Several calls share their links where each has a stepper over the same Traffic, and somebody else
// begins them and moves their ranks.
#ifndef RINGZERO_COLLECTIVES_SIMULATION_STEPPER_H_
#define RINGZERO_COLLECTIVES_SIMULATION_STEPPER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/lane_memory.h"
#include "collectives/plan.h"
#include "collectives/simulation/shared_schedules.h"
#include "collectives/simulation/traffic.h"
#include "runtime/transport/sim/sim_links.h"

namespace rz {

class Stepper final : public TrafficListener {
 public:
  // plans[i] is for schedules->schedule(i); lanes_in_flight >= 1; members[r] is rank r's number in
  // the links (empty: the same). All outlive the stepper.
  Stepper(const SharedSchedules* schedules, absl::Span<const Plan> plans, Traffic* traffic,
          int lanes_in_flight, double reduce_bandwidth, absl::Span<const int> members = {});

  // Once. Returns when the last rank was through.
  //   Internal  the schedules do not fit each other
  absl::StatusOr<SimTime> Run(const std::function<void(int64_t messages)>& progress);

  // Instead of Run: lets a rank do all it can; the first time, it begins. To be called when the
  // rank is due.
  void Move(int rank);
  bool IsThrough(int rank) const { return ranks_[rank].is_through; }
  bool AreAllThrough() const { return ranks_done_ == static_cast<int>(ranks_.size()); }

  // OK, or Internal: the schedules do not fit each other.
  const absl::Status& failure() const { return failure_; }
  // Internal, with who waits where.
  absl::Status Stuck() const;

  void OnSent(const Traffic::Message& message) override;
  void OnDelivered(const Traffic::Message& message) override;
  void OnTimer(const Traffic::Timer& timer) override;

 private:
  // A place where one lane after another runs.
  struct LaneSlot {
    int64_t lane = -1;  // -1: free
    LaneMemory memory;
    int32_t round = -1;  // -1: before the first
    int pending = 0;
    bool has_added = false;         // what the round adds
    std::vector<uint8_t> awaiting;  // of the round's transfers: a receive that nothing has met
  };

  // Arrived before its receive was posted.
  struct EarlyMessage {
    int source;
    int64_t lane;
    int64_t bytes;
  };

  struct RankState {
    std::vector<LaneSlot> slots;
    int64_t next_lane = 0;
    int64_t lanes_done = 0;
    std::vector<EarlyMessage> early;
    std::vector<int> met;    // slots whose receive an early message met
    std::vector<int> ready;  // slots with nothing pending
    bool is_through = false;
  };

  int MemberOf(int rank) const { return members_.empty() ? rank : members_[rank]; }
  void Finish(int rank, int slot);  // one of the slot's transfers
  void SetThrough(int rank);

  bool AdmitLane(int rank);
  void Advance(int rank, int slot);
  void PostRound(int rank, int slot);
  void Send(int rank, int slot, const Transfer& transfer, int64_t bytes);
  void Receive(int rank, int slot, size_t index, const Transfer& transfer, int64_t bytes);

  // The additions of the slot's round: false where they take time, after which the slot is ready.
  bool Add(int rank, int slot);

  const std::vector<Round>& RoundsOf(int rank) const;
  int64_t BytesOf(const LaneSlot& slot, const Transfer& transfer) const;

  const SharedSchedules& schedules_;
  const absl::Span<const Plan> plans_;
  Traffic& traffic_;
  const absl::Span<const int> members_;
  const double add_per_byte_;  // picoseconds

  std::vector<RankState> ranks_;
  std::vector<int> working_;  // slots of the rank that moves
  int ranks_done_ = 0;
  absl::Status failure_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SIMULATION_STEPPER_H_
