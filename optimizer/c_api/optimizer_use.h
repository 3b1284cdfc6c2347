// Handles of optimizers, as the functions of the C interface use them.
#ifndef RINGZERO_OPTIMIZER_C_API_OPTIMIZER_USE_H_
#define RINGZERO_OPTIMIZER_C_API_OPTIMIZER_USE_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/c_api/comm_handle.h"
#include "collectives/c_api/submit.h"
#include "optimizer/c_api/c_api.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_macros.h"

namespace rz::c_api {

// The communicator's handle cannot end before, since it counts its optimizers.
struct OptimizerHandle {
  CommHandle* comm = nullptr;
  std::unique_ptr<ZeroOptimizer> optimizer;
};
using OptimizerTable = HandleTable<OptimizerHandle, HandleKind::kOptimizer>;

// An optimizer within a call of this thread.
class OptimizerUse {
 public:
  static absl::StatusOr<OptimizerUse> Enter(const void* handle) {
    RZ_ASSIGN_OR_RETURN(OptimizerTable::Pin pin, OptimizerTable::Get().Find(handle));
    RZ_ASSIGN_OR_RETURN(JobSession::Use use, pin->comm->session->Enter());
    return OptimizerUse(std::move(pin), std::move(use));
  }

  ZeroOptimizer* operator->() const { return pin_->optimizer.get(); }
  ZeroOptimizer& operator*() const { return *pin_->optimizer; }
  CommHandle& comm() const { return *pin_->comm; }
  OptimizerTable::Pin TakePin() { return std::move(pin_); }

 private:
  OptimizerUse(OptimizerTable::Pin pin, JobSession::Use use)
      : pin_(std::move(pin)), use_(std::move(use)) {}
  OptimizerTable::Pin pin_;
  JobSession::Use use_;  // ends first
};

template <typename Body>
rz_result_t Run(const char* function, rz_zero_t* zero, const Body& body) {
  return Guarded(function, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const OptimizerUse use, OptimizerUse::Enter(zero));
    return Outcome(use.comm(), body(*use));
  });
}

}  // namespace rz::c_api

#endif  // RINGZERO_OPTIMIZER_C_API_OPTIMIZER_USE_H_
