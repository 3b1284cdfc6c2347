// Executor: runs plans over a transport without ever blocking.
//
// An operation is cut into lanes; at most lanes_in_flight of one operation, and a few times that of
// all together, are under way. Lanes are admitted in order of (operation, lane) on every rank, so
// the oldest lane that is not complete anywhere is under way everywhere: the bound cannot deadlock.
// Scratch belongs to the places lanes run in, grows to the largest plan and is kept; once warm,
// nothing is allocated.
//
// A failure (a transfer that fails, a message of the wrong length, Fail, RequestAbort) ends
// everything: the transport is aborted, and operations count as done when it has given back their
// memory. Threads: one owner; RequestAbort may come from any.
#ifndef RINGZERO_COLLECTIVES_EXECUTOR_H_
#define RINGZERO_COLLECTIVES_EXECUTOR_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "collectives/control_channel.h"
#include "collectives/flight/flight_recorder.h"
#include "collectives/group.h"
#include "collectives/lane_memory.h"
#include "collectives/plan.h"
#include "collectives/wire_counters.h"
#include "runtime/memory/memory.h"
#include "runtime/transport/transport.h"

namespace rz {

class Executor final : public CompletionSink {
 public:
  // Told once of each operation, when it is over: it may touch the operation's buffers on success.
  using FinishedCallback = std::function<void(int64_t number, const absl::Status& result)>;

  // The transport outlives the executor; the executor outlives its operations (see idle()). Peers
  // of schedules are ranks of `group`.
  Executor(Transport* transport, Group group, uint32_t communicator_id, int lanes_in_flight);

  void set_on_finished(FinishedCallback callback) { on_finished_ = std::move(callback); }

  // With a channel (which outlives the executor), the first message of lane 0 to a neighbour
  // travels with the call's descriptor where it can, and nothing of lane 0 is taken from a
  // neighbour that has not been heard to make the same call. Then a transfer that fails stops the
  // lanes, and the owner decides of what to Fail: see trouble().
  void UseChannel(ControlChannel* channel) {
    channel_ = channel;
    owner_judges_ = channel != nullptr;
  }

  // From the next operation on calls are compared otherwise: nothing travels with them.
  void LeaveChannel() {
    channel_ = nullptr;
    owner_judges_ = true;
  }

  // elsewhere[r]: rank r is on another host; for the counters.
  void set_elsewhere(std::vector<bool> elsewhere) { elsewhere_ = std::move(elsewhere); }

  // Starts operation `number` (greater than all before). The executor has not failed. Schedule and
  // buffers stay until the operation is done; the plan's offsets need not. `fingerprint` is that of
  // the call, below kFingerprints.
  void Start(int64_t number, const Plan& plan, const void* input, void* output,
             uint32_t fingerprint = 0);

  // Moves what can be moved; returns how many completions came.
  int Poll();

  bool IsDone(int64_t number) const;

  // All of the operations first .. last are.
  bool AreDone(int64_t first, int64_t last) const {
    return order_.empty() || NoneRunning(first, last);
  }

  // The first of them that is not done; one of them is not.
  int64_t FirstRunning(int64_t first, int64_t last) const;

  // Of a done operation, or of several: OK or the cause of failure.
  absl::Status ResultOf(int64_t number) const { return ResultOf(number, number); }
  absl::Status ResultOf(int64_t first, int64_t last) const;

  // Nothing is under way and the transport holds no memory of ours.
  bool idle() const { return order_.empty() && pending_ == 0; }

  // Ends everything with `cause`, unless it failed before.
  void Fail(const absl::Status& cause);
  bool failed() const { return !failure_.ok(); }
  absl::Status failure() const { return failure_; }

  // No lane moves any more; Fail is to follow.
  void Suspend() { suspended_ = true; }

  // OK, or what the owner has to Fail of unless it knows better. The lanes have stopped.
  const absl::Status& trouble() const { return transfer_failure_; }

  // The channel has heard of `peer`'s call `number`, or never will. From within Progress.
  void OnCallHeard(int64_t number, Rank peer);

  // Where operation `number` waits.
  FlightPosition PositionOf(int64_t number) const;

  // As Fail, from any thread: seen by the next Poll.
  void RequestAbort(const absl::Status& cause);
  bool abort_requested() const { return abort_requested_.load(std::memory_order_acquire); }
  absl::Status abort_cause() const;  // OK: nobody asked

  // Reports failed operations as done although the transport never gave their memory back.
  void Abandon() { order_.clear(); }

  // What keeps operation `number`: "lane 3 of 12, round 2 waits: recv block 1 from rank 0 ...".
  std::string DescribeWait(int64_t number) const;

  // "operation 7 (reduce_scatter of 1000 bfloat16 sum by pairwise)", of one under way.
  std::string DescribeOperation(int64_t number) const;

  const WireCounters& wire_counters() const { return counters_; }

  void OnComplete(uint64_t token, const absl::Status& status, size_t bytes) override;

 private:
  bool NoneRunning(int64_t first, int64_t last) const;

  struct RunningOperation {
    int64_t number = 0;
    Plan plan;
    std::vector<int64_t> offsets;  // of the plan's layouts, in v variants
    std::vector<int64_t> output_offsets;
    std::byte* input = nullptr;
    std::byte* output = nullptr;
    uint32_t fingerprint = 0;
    int64_t next_lane = 0;
    int64_t lanes_done = 0;
    int lanes_active = 0;
  };

  struct TransferState {
    size_t bytes = 0;
    bool outstanding = false;
    bool awaits_call = false;  // of its peer; the transport knows nothing of it yet
  };

  // A place where one lane after another runs.
  struct LaneSlot {
    int operation = -1;  // index in operations_; -1: free
    int64_t lane = 0;
    LaneMemory memory;
    size_t round = 0;
    int pending = 0;
    std::vector<TransferState> transfers;  // of the round
    // Of lane 0: a message to or from this neighbour is under way or over.
    std::array<bool, ControlChannel::kMaxNeighbours> has_sent = {};
    std::array<bool, ControlChannel::kMaxNeighbours> has_received = {};
    Buffer scratch;
  };

  int MakeOperation();
  int NewOperation();
  const RunningOperation* Find(int64_t number) const;
  void AdmitLanes();
  bool AdmitLane(int operation);
  int FreeSlot() const;
  absl::Status PrepareSlot(LaneSlot& slot, int operation);

  // Runs the slot's lane until it waits for transfers or is through.
  void AdvanceLane(int slot_index);
  absl::Status PostRound(int slot_index);
  absl::Status PostTransfer(int slot_index, size_t transfer_index);
  absl::Status PostReceive(int slot_index, size_t transfer_index, absl::Span<std::byte> memory);

  // Sends or receives with the call's descriptor; false where that is not the way.
  bool SendWithCall(LaneSlot& slot, const Transfer& transfer, absl::Span<const std::byte> memory);
  absl::StatusOr<bool> ReceiveWithCall(LaneSlot& slot, size_t transfer_index,
                                       absl::Span<std::byte> memory);
  absl::Status TakePayload(LaneSlot& slot, size_t transfer_index, absl::Span<std::byte> memory,
                           absl::Span<const std::byte> payload);
  absl::Status ResolveAwaited(int slot_index, size_t transfer_index);

  bool stopped() const { return failed() || suspended_; }
  // A transfer failed, or the function of an operation.
  void OnTrouble(const absl::Status& status);
  // False: the function of the operation failed.
  bool RunLocalSteps(const LaneSlot& slot);

  void CountPayload(Collective collective, int32_t peer, size_t bytes);
  absl::Status InContext(const LaneSlot& slot, size_t transfer_index,
                         const absl::Status& status) const;
  absl::Status FunctionFailed(int64_t number) const;
  std::string DescribeTransfer(const LaneSlot& slot, size_t transfer_index) const;

  // Takes operations off the list whose lanes are all done, or, after a failure, all of them once
  // the transport holds nothing of theirs.
  void Retire();

  Transport* const transport_;
  const Group group_;
  const uint32_t communicator_id_;
  const int lanes_in_flight_;

  std::deque<RunningOperation> operations_;
  std::vector<int> free_operations_;
  std::vector<int> order_;  // running operations, oldest first
  std::vector<LaneSlot> slots_;
  std::vector<int> ready_;      // slots whose round is complete
  std::vector<int> advancing_;  // the same while they are worked on
  int pending_ = 0;             // transfers the transport holds

  ControlChannel* channel_ = nullptr;
  bool owner_judges_ = false;  // of what to Fail
  bool suspended_ = false;
  std::vector<int> awaiting_;  // slots with transfers that await calls

  FinishedCallback on_finished_;
  WireCounters counters_;
  std::vector<bool> elsewhere_;  // empty: not known
  absl::Status failure_;
  absl::Status transfer_failure_;  // the first one, acted on by Poll or the owner
  std::vector<int64_t> failed_operations_;

  std::atomic<bool> abort_requested_{false};
  mutable absl::Mutex abort_mutex_;
  absl::Status abort_cause_ ABSL_GUARDED_BY(abort_mutex_);
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_EXECUTOR_H_
