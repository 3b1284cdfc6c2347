// A job of communicators over a SimWorld, for tests: all ranks in this thread.
#ifndef RINGZERO_COLLECTIVES_TESTING_SIM_JOB_H_
#define RINGZERO_COLLECTIVES_TESTING_SIM_JOB_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz::testing {

class SimJob {
 public:
  // The communicators' clock is the world's.
  SimJob(int world_size, SimOptions sim, CommunicatorOptions options);

  // Lets the ranks share memory. Errors as Run; all ranks do, or none.
  absl::StatusOr<bool> ShareMemory();

  SimWorld& world() { return world_; }
  Communicator& comm(int rank) { return *communicators_[rank]; }
  int size() const { return world_.world_size(); }

  // Each rank starts `operations` operations, start(rank, i), at moments drawn by the world's
  // scheduler, and polls them until all are done. A rank whose start fails starts no more.
  //   FailedPrecondition  deadlock; see SimWorld::Run
  // results()[rank] is the rank's first error, or OK.
  using StartFunction = std::function<absl::StatusOr<Operation>(int rank, int operation)>;
  absl::Status Run(int operations, const StartFunction& start);

  // What a deadline does in a real job: aborts every living rank with `cause` and lets them end.
  absl::Status AbortAll(const absl::Status& cause);

  const std::vector<absl::Status>& results() const { return results_; }

 private:
  // One rank's progress through Run.
  struct RankProgress {
    std::vector<Operation> started;
    bool refused = false;
  };

  bool PollRank(int rank, int operations, const StartFunction& start);

  SimWorld world_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::function<bool()>> ranks_;
  std::vector<RankProgress> progress_;
  std::vector<absl::Status> results_;
};

}  // namespace rz::testing

#endif  // RINGZERO_COLLECTIVES_TESTING_SIM_JOB_H_
