// ParameterBroadcast: gives all ranks the parameters of rank 0, as a state machine that never
// waits.
//
//   1. All ranks exchange votes: a plan that differs anywhere ends it before any parameter moves.
//   2. Parameter by parameter, in the order of declaration: rank 0's initializer fills a scratch
//      buffer in fp32, the buffer is broadcast, and each rank keeps what its stage holds of it.
//
// The scratch buffer (the largest parameter in fp32) is freed at the end.
#ifndef RINGZERO_OPTIMIZER_PARAMETER_BROADCAST_H_
#define RINGZERO_OPTIMIZER_PARAMETER_BROADCAST_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "optimizer/layout/flat_layout.h"
#include "optimizer/layout/partition.h"
#include "optimizer/stage_policy.h"
#include "optimizer/step_control.h"
#include "optimizer/zero_config.h"
#include "runtime/memory/memory.h"

namespace rz {

class ParameterBroadcast {
 public:
  // Fills `values` with the initial fp32 values of parameter `index`.
  using Initializer = std::function<void(size_t index, absl::Span<float> values)>;

  // All arguments outlive the broadcast.
  ParameterBroadcast(Communicator* communicator, const FlatLayout* layout,
                     const Partition* partition, const ZeroConfig* config, StagePolicy* policy);

  // Begins. Requires that none is under way.
  //   ResourceExhausted  no scratch memory; nothing was started
  absl::Status Start(Initializer initializer);

  // Moves as far as possible without waiting; true when it has ended.
  bool Poll();

  bool running() const { return running_; }

  // How it ended.
  const absl::Status& result() const { return result_; }

  // The operation that Poll waits for; null where it waits for none.
  Operation* awaited() { return running_ && operation_ ? &*operation_ : nullptr; }

  // Ends an operation still under way by failing the communicator, so that its memory may go.
  void Abandon();

 private:
  // Makes one move; false where only waiting is left.
  bool Advance();
  absl::Status DealWithCompleted();
  absl::Status StartNext();
  void End(absl::Status result);

  Communicator* communicator_;
  const FlatLayout* layout_;
  const Partition* partition_;
  const ZeroConfig* config_;
  StagePolicy* policy_;

  Initializer initializer_;
  Buffer scratch_;
  std::vector<StepVote> votes_;  // [world]
  StepVote vote_;
  std::optional<Operation> operation_;
  bool votes_pending_ = false;       // not yet exchanged
  std::optional<size_t> parameter_;  // the one under way; none while votes are exchanged
  bool running_ = false;
  absl::Status result_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_PARAMETER_BROADCAST_H_
