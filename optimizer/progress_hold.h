// ProgressHold: the progress thread of an optimizer's communicator, as long as the optimizer wants
// it.
//
// Threads: the optimizer's.
#ifndef RINGZERO_OPTIMIZER_PROGRESS_HOLD_H_
#define RINGZERO_OPTIMIZER_PROGRESS_HOLD_H_

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "optimizer/zero_config.h"

namespace rz {

class ProgressHold {
 public:
  // The communicator outlives it.
  explicit ProgressHold(Communicator* communicator) : communicator_(communicator) {}
  ~ProgressHold() {
    if (held_) communicator_->StopProgressThread();
  }
  ProgressHold(const ProgressHold&) = delete;
  ProgressHold& operator=(const ProgressHold&) = delete;

  // Starts the thread where config.progress_thread says so. Called once.
  //   Unimplemented      it is asked for, and the transport can have none, or there are groups
  //   ResourceExhausted  the system gives no thread
  absl::Status Start(const ZeroConfig& config);

 private:
  Communicator* const communicator_;
  bool held_ = false;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_PROGRESS_HOLD_H_
