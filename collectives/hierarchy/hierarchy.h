// Hierarchy: carries out calls of ranks on several hosts in stages: within each host through memory
// its ranks share, between hosts in columns of one rank a host, and within the host again.
//
// Calls go one after the other; of the oldest one, kSlicesUnderWay slices are under way together,
// so that one crosses the network while others are within their hosts. Calls of a part start in the
// same order on all its ranks, whatever comes when: within a host the first stage of slice s, and
// after it the last stage of slice s - kSlicesUnderWay + 1; in a column slice by slice.
//
// Nothing blocks, and nothing is allocated once a call as large was made before; scratch holds
// kSlicesUnderWay slices, whose size the plans bound. Threads: the communicator's owner alone.
#ifndef RINGZERO_COLLECTIVES_HIERARCHY_HIERARCHY_H_
#define RINGZERO_COLLECTIVES_HIERARCHY_HIERARCHY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/call.h"
#include "collectives/flight/flight_recorder.h"
#include "collectives/hierarchy/hierarchy_work.h"
#include "collectives/hierarchy/host_map.h"
#include "collectives/hierarchy/part.h"
#include "collectives/kernels/reduce_kernel.h"
#include "collectives/plan.h"
#include "collectives/running_calls.h"

namespace rz {

class Hierarchy {
 public:
  static constexpr int kSlicesUnderWay = 3;

  using FinishedCallback = std::function<void(int64_t number, const absl::Status& result)>;

  // `local` is of this host's ranks in their order; `column` of this rank's column, null where it
  // is in none.
  Hierarchy(HostMap hosts, int rank, std::unique_ptr<Part> local, std::unique_ptr<Part> column,
            FinishedCallback on_finished);

  const HostMap& hosts() const { return hosts_; }
  Part& local() { return *local_; }
  Part* column() { return column_.get(); }

  // Starts a call whose plan's algorithm is kHierarchical. Buffers stay until it is done; the
  // plan's offsets need not.
  void Start(int64_t number, const Plan& plan, NumericMode mode, const void* input, void* output);

  // Moves what can be moved; returns how much.
  int Poll();

  bool idle() const { return running_.empty(); }
  // Nothing of the parts is under way either.
  bool parts_idle() const { return local_->idle() && (column_ == nullptr || column_->idle()); }
  // As RunningCalls, for these.
  bool AreDone(int64_t first, int64_t last) const { return running_.AreDone(first, last); }
  int64_t FirstRunning(int64_t first, int64_t last) const {
    return running_.FirstRunning(first, last);
  }

  // Ends everything with `cause`: calls are done when their memory is back.
  void Fail(const absl::Status& cause);
  bool HasFailed(int64_t first, int64_t last) const { return running_.HasFailed(first, last); }

  // OK, or what went wrong first in a part.
  absl::Status trouble() const;

  FlightPosition PositionOf(int64_t number) const;
  // "slice 3 of 12, between hosts: lane 0 of 1, round 2 waits: ...".
  std::string DescribeWait(int64_t number) const;
  // "operation 7 (all_reduce of 1000 float32 sum by hierarchical)".
  std::string DescribeOperation(int64_t number) const;

 private:
  // In the place of a part's call: there is nothing to do.
  static constexpr int64_t kNoCall = -1;

  struct Running : RunningCall {
    Running(const HostMap* hosts, int rank, bool carries_payload)
        : work(hosts, rank, carries_payload) {}

    HierarchyWork work;
    size_t slice_scratch = 0;
    // Slices whose stages have begun, and that are over.
    int64_t in = 0;
    int64_t across = 0;
    int64_t out = 0;
    int64_t done = 0;
    // Calls of the slices under way.
    std::array<int64_t, kSlicesUnderWay> in_calls;
    std::array<int64_t, kSlicesUnderWay> across_calls;
    std::array<int64_t, kSlicesUnderWay> out_calls;
  };
  // Where the oldest slice of a call waits.
  struct Waiting {
    const Part* part = nullptr;  // null: for nothing
    int64_t call = 0;
    bool between_hosts = false;
  };

  // Takes one step; false: none can be taken now.
  bool Advance(Running& call);
  bool BeginIn(Running& call);
  bool BeginAcross(Running& call);
  bool BeginOut(Running& call);
  bool FinishOne(Running& call);
  // Starts a stage's call, if there is one; what to remember of it.
  int64_t Begin(Part* part, const std::optional<Call>& call);
  bool IsOver(const Part* part, int64_t call) const;
  std::byte* ScratchOf(const Running& call, int64_t slice) const;
  bool HaveScratch(Running& call);
  Waiting WaitingOf(const Running& call) const;
  // A rank of a part, as one of the communicator.
  int RankOf(const Waiting& waiting, int rank) const;

  const HostMap hosts_;
  const int rank_;
  const std::unique_ptr<Part> local_;
  const std::unique_ptr<Part> column_;
  const FinishedCallback on_finished_;
  RunningCalls<Running> running_;
  absl::Span<std::byte> scratch_;
  absl::Status trouble_;  // of starting a call
  bool has_failed_ = false;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_HIERARCHY_HIERARCHY_H_
