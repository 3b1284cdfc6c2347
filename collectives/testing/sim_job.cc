#include "collectives/testing/sim_job.h"

#include <utility>

#include "gtest/gtest.h"

namespace rz::testing {

SimJob::SimJob(int world_size, SimOptions sim, CommunicatorOptions options)
    : world_(world_size, std::move(sim)) {
  options.clock = world_.clock();
  for (int r = 0; r < world_size; ++r) {
    auto communicator = Communicator::Create(world_.transport(Rank(r)), options);
    if (!communicator.ok()) {
      ADD_FAILURE() << communicator.status().ToString();
      return;
    }
    communicators_.push_back(*std::move(communicator));
  }
}

absl::StatusOr<bool> SimJob::ShareMemory() {
  std::vector<ShareOperation> shares;
  std::vector<std::function<bool()>> ranks;
  for (auto& communicator : communicators_) {
    absl::StatusOr<ShareOperation> share = communicator->StartShareMemory();
    if (!share.ok()) return share.status();
    shares.push_back(*std::move(share));
  }
  for (ShareOperation& share : shares) {
    ranks.push_back([&share] { return share.Poll(); });
  }
  const absl::Status run = world_.Run(ranks);
  if (!run.ok()) return run;
  bool shared = true;
  for (ShareOperation& share : shares) {
    const absl::StatusOr<bool> finished = share.Finish();
    if (!finished.ok()) return finished.status();
    shared &= *finished;
  }
  return shared;
}

bool SimJob::PollRank(int rank, int operations, const StartFunction& start) {
  RankProgress& progress = progress_[rank];
  const int started = static_cast<int>(progress.started.size());
  if (!progress.refused && started < operations) {
    absl::StatusOr<Operation> operation = start(rank, started);
    if (operation.ok()) {
      progress.started.push_back(*std::move(operation));
    } else {
      progress.refused = true;
      results_[rank].Update(operation.status());
    }
    return false;
  }
  bool done = true;
  for (Operation& operation : progress.started) done &= operation.Poll();
  if (!done) return false;
  for (const Operation& operation : progress.started) results_[rank].Update(operation.status());
  return true;
}

absl::Status SimJob::Run(int operations, const StartFunction& start) {
  results_.assign(size(), absl::OkStatus());
  progress_.assign(size(), {});
  ranks_.clear();
  for (int r = 0; r < size(); ++r) {
    progress_[r].started.reserve(operations);
    ranks_.push_back([this, r, operations, start] { return PollRank(r, operations, start); });
  }
  return world_.Run(ranks_);
}

absl::Status SimJob::AbortAll(const absl::Status& cause) {
  for (int r = 0; r < size(); ++r) {
    if (!world_.IsDead(Rank(r))) comm(r).Abort(cause);
  }
  return world_.Run(ranks_);
}

}  // namespace rz::testing
