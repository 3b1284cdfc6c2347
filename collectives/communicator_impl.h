// The inside of Communicator: where calls become operations. communicator.cc has its life,
// communicator_calls.cc what makes calls of arguments, communicator_split.cc the split,
// communicator_hierarchy.cc the parts of ranks on several hosts, communicator_progress.cc the
// thread that may take turns with the owner.
//
//   Start(call)     checks the call, plans it and begins it
//   Begin           gives an operation its number and starts it, everything known
//   OnFinished      an operation is over
#ifndef RINGZERO_COLLECTIVES_COMMUNICATOR_IMPL_H_
#define RINGZERO_COLLECTIVES_COMMUNICATOR_IMPL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/call.h"
#include "collectives/call_guard.h"
#include "collectives/communicator.h"
#include "collectives/executor.h"
#include "collectives/group.h"
#include "collectives/hierarchy/hierarchy.h"
#include "collectives/hierarchy/host_map.h"
#include "collectives/packed_calls.h"
#include "collectives/plan.h"
#include "collectives/plan_memory.h"
#include "collectives/point_to_point.h"
#include "collectives/progress_thread.h"
#include "collectives/schedule_cache.h"
#include "collectives/selection.h"
#include "collectives/shared/shared_link.h"

namespace rz {

class Communicator::Impl final : private ControlListener, public ProgressWork {
 public:
  // A part belongs to a hierarchy's parent, which judges what to fail of and keeps the record.
  enum class Role : uint8_t { kWhole, kPart };

  // options.id is claimed already, and released by the destructor.
  Impl(Transport* transport, Group group, CommunicatorOptions options, WantedAlgorithms wanted,
       Role role);
  ~Impl();

  static absl::StatusOr<std::unique_ptr<Impl>> Create(Transport* transport, Group group,
                                                      CommunicatorOptions options,
                                                      Role role = Role::kWhole);

  Transport* transport() const { return transport_; }
  const Group& group() const { return group_; }
  const CommunicatorOptions& options() const { return options_; }
  const Selector& selector() const { return selector_; }
  Selector& selector() { return selector_; }
  Executor& executor() { return *executor_; }
  const CallGuard& guard() const { return *guard_; }
  const WireCounters& wire_counters();

  bool shares_memory() const { return shared_ != nullptr; }
  size_t shared_scratch_bytes() const { return shared_ == nullptr ? 0 : shared_->scratch_bytes(); }
  // Nothing is under way, and all ranks do this after the same calls.
  void UseSharedMemory(std::unique_ptr<SharedArea> area);

  // Likewise: from now on it is known who is on which host, and whether on any of them ranks
  // outnumber cores; and ranks of one host work together through the area, under these ids.
  //   AlreadyExists  an id has been taken since the ranks agreed on it
  void UseHosts(const HostMap& hosts, bool cores_are_few);
  absl::Status UseHierarchy(const HostMap& hosts, bool cores_are_few,
                            std::unique_ptr<SharedArea> area, uint32_t local_id,
                            uint32_t column_id);
  int hosts() const { return hosts_; }
  int ranks_of_each_host() const { return ranks_of_each_host_; }

  // The job has more ranks on this rank's host than they have cores: so this communicator or one
  // that it is made of has found. Told before memory is shared.
  bool cores_are_few() const { return cores_are_few_; }
  void LearnThatCoresAreFew();

  // Null: this rank shares memory with no other one.
  SharedRegions* regions();

  absl::StatusOr<Operation> Start(const Call& call);
  absl::StatusOr<Operation> StartGroup(absl::Span<const Call> calls);
  absl::StatusOr<Operation> StartMessage(bool is_send, void* buffer, int64_t count, DType dtype,
                                         Rank peer);

  // Null: a part, whose parent keeps others out.
  ProgressThread* progress() const { return progress_.get(); }
  const std::shared_ptr<ProgressThread>& shared_progress() const { return progress_; }
  absl::Status StartProgressThread();
  void StopProgressThread();
  bool has_progress_thread() const { return progress_users_ > 0; }

  int Poll() override;
  // Likewise, and what other communicators of the transport have under way.
  int PollAll();
  bool NeedsPolls() const override;
  bool ShowsEvents() const override { return shared_ == nullptr && hierarchy_ == nullptr; }
  // No operation of this communicator is under way.
  bool quiet() const;
  bool IsDone(const Operation& operation) const;
  absl::Status ResultOf(const Operation& operation) const;
  absl::Status Wait(const Operation& operation, absl::Duration timeout);
  absl::Status status() const;

  NumericMode ModeOf(const CallOptions& call) const {
    return call.numeric_mode.value_or(options_.numeric_mode);
  }
  Request RequestOf(const Call& call) const;

 private:
  // A pack of calls whose operation may be under way.
  struct Pack {
    int64_t number = -1;  // of the operation; -1: free
    PackedCalls calls;
  };

  // The plan of a checked call. Its layouts of v variants refer to offsets_ and recv_offsets_.
  absl::StatusOr<Plan> MakePlan(const Call& call);
  absl::StatusOr<Plan> MakePlan(const Call& call, Algorithm algorithm);
  void SetLayouts(const Call& call, const AlgorithmTraits& traits, Plan& plan);
  void SetSharedLayout(const Call& call, Plan& plan);

  //   Unimplemented  the call has a shard kernel and the plan's algorithm runs none
  absl::Status CheckKernel(const Call& call, const Plan& plan) const;
  int64_t Begin(const Call& call, const Plan& plan, const CallDescriptor& described);
  CallDescriptor Describe(const Call& call, const Plan& plan,
                          absl::Span<const Call> packed = {}) const;
  void OnFinished(int64_t number, const absl::Status& result);

  // What carries operation `number`, which is under way.
  enum class Carrier : uint8_t { kMessages, kSharedMemory, kHierarchy };
  Carrier CarrierOf(int64_t number) const;
  std::string DescribeOperation(int64_t number) const;

  // Starts calls[first ...] as one or alone, and returns how many that were.
  absl::StatusOr<size_t> BeginNextOfGroup(absl::Span<const Call> calls, size_t first);
  absl::Status BeginPack(absl::Span<const Call> calls, Algorithm algorithm);
  size_t PackLength(absl::Span<const Call> calls, size_t first);
  Pack& FreePack();

  // ControlListener
  void OnCallHeard(int64_t number, Rank peer) override { executor_->OnCallHeard(number, peer); }
  void OnVerdict() override { executor_->Suspend(); }

  // The first thing that went wrong with a transfer.
  absl::Status trouble() const;
  // Of a part: that, or its verdict.
  absl::Status Symptom() const;
  // OK, or the reason why nothing may start; waits for it where it is about to be known.
  absl::Status CheckUsable();
  void Fail(const absl::Status& cause);
  void RecordPosition(int64_t number);

  bool idle() const {
    return executor_->idle() && messages_->idle() && (shared_ == nullptr || shared_->idle()) &&
           (hierarchy_ == nullptr || (hierarchy_->idle() && hierarchy_->parts_idle()));
  }
  // The first of these operations that is not done, or `last`.
  int64_t FirstRunning(int64_t first, int64_t last) const;
  std::string DescribeWait(int64_t number) const;
  // Polls shared memory alone for a moment: a call of few bytes is over before the clock is read.
  bool WaitBriefly(const Operation& operation);
  void WaitForMovement(Deadline deadline);
  // `deadline`, or sooner where others move without an event.
  Deadline NextLook(Deadline deadline) const;
  absl::Status DeadlineError(const Operation& operation, absl::Duration timeout) const;
  Deadline DrainDeadline();
  void Drain();
  // Waits for the neighbours to have made this rank's last calls, then lets go of what they sent.
  void CatchUp();

  class PartOfHosts;
  // A part of these ranks of this communicator.
  absl::StatusOr<std::unique_ptr<Impl>> MakePart(absl::Span<const int> members, uint32_t id,
                                                 LinkKind link) const;

  Transport* const transport_;
  const Group group_;
  const CommunicatorOptions options_;
  const Role role_;
  std::shared_ptr<ProgressThread> progress_;
  int progress_users_ = 0;
  Selector selector_;
  ScheduleCache schedules_;
  PlanMemory plans_;
  std::unique_ptr<CallGuard> guard_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<PointToPoint> messages_;
  std::unique_ptr<SharedLink> shared_;  // null: ranks talk by messages alone
  // Null: all ranks are on one host, or each is on its own, or that is not known.
  std::unique_ptr<Hierarchy> hierarchy_;
  Impl* local_ = nullptr;   // the hierarchy's part of this host
  Impl* column_ = nullptr;  // its part between hosts, null: this rank is in no column
  int hosts_ = 0;           // 0: not known
  bool cores_are_few_ = false;
  int ranks_of_each_host_ = 0;
  int polls_without_transport_ = 0;
  std::vector<std::unique_ptr<Pack>> packs_;
  std::vector<Algorithm> group_algorithms_;  // of the calls of the group that is starting
  std::vector<int64_t> offsets_;
  std::vector<int64_t> recv_offsets_;
  WireCounters counters_;
  int fruitless_polls_ = 0;
  bool record_written_ = false;
  std::optional<Deadline> drain_deadline_;  // of the steady clock, from the failure on
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_COMMUNICATOR_IMPL_H_
