// Stepper: what simulated_call.h promises. The executor's rules without its memory: lanes admitted
// in order, so many in flight; a lane posts all transfers of its round, and with the last of them
// done does its additions and goes on.
//
// All that happens at one moment happens before any rank moves; then those move that were told of
// something, in the order of ranks, as in SimWorld::Run.
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
#include "runtime/transport/sim/sim_links.h"

namespace rz {

class Stepper {
 public:
  // plans[i] is for schedules->schedule(i); lanes_in_flight >= 1. All outlive the stepper.
  Stepper(const SharedSchedules* schedules, absl::Span<const Plan> plans, SimLinks* links,
          int lanes_in_flight, double reduce_bandwidth);

  // Once. Returns when the last rank was through.
  //   Internal  the schedules do not fit each other
  absl::StatusOr<SimTime> Run(const std::function<void(int64_t messages)>& progress);

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
    SimTime busy_until = 0;  // with additions
    bool is_due = false;
  };

  // What the links carry, by their number.
  struct Message {
    int source = 0;
    int slot = 0;  // of the source
    int destination = 0;
    int64_t lane = 0;
    int64_t bytes = 0;
  };

  void Handle(const SimLinks::Event& event);
  void Deliver(const Message& message);
  void Finish(int rank, int slot);  // one of the slot's transfers
  void MakeDue(int rank);
  void TakeDue();  // to move, in order

  // Lets the rank do all it can.
  void Move(int rank);
  bool AdmitLane(int rank);
  void Advance(int rank, int slot);
  void PostRound(int rank, int slot);
  void Send(int rank, int slot, const Transfer& transfer, int64_t bytes);
  void Receive(int rank, int slot, size_t index, const Transfer& transfer, int64_t bytes);

  // The additions of the slot's round: false where they take time, after which the slot is ready.
  bool Add(int rank, int slot);

  const std::vector<Round>& RoundsOf(int rank) const;
  int64_t BytesOf(const LaneSlot& slot, const Transfer& transfer) const;
  absl::Status Stuck() const;

  const SharedSchedules& schedules_;
  const absl::Span<const Plan> plans_;
  SimLinks& links_;
  const double add_per_byte_;  // picoseconds

  std::vector<RankState> ranks_;
  std::vector<Message> messages_;
  std::vector<int> due_;
  std::vector<int> moving_;
  std::vector<int> working_;  // slots of the rank that moves
  int ranks_done_ = 0;
  int64_t delivered_ = 0;
  absl::Status failure_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SIMULATION_STEPPER_H_
