// How a communicator takes turns with its progress thread.
#include "collectives/communicator_impl.h"
#include "runtime/base/status_macros.h"

namespace rz {

absl::Status Communicator::Impl::StartProgressThread() {
  if (progress_users_ == 0) RZ_RETURN_IF_ERROR(progress_->Start(this));
  ++progress_users_;
  return absl::OkStatus();
}

void Communicator::Impl::StopProgressThread() {
  if (progress_users_ > 0 && --progress_users_ == 0) progress_->Stop(this);
}

bool Communicator::Impl::NeedsPolls() const {
  return !quiet() || (!executor_->failed() && !guard_->caught_up());
}

absl::Status Communicator::StartProgressThread() { return impl_->StartProgressThread(); }
void Communicator::StopProgressThread() { impl_->StopProgressThread(); }
bool Communicator::has_progress_thread() const { return impl_->has_progress_thread(); }

Communicator::Turn::Turn(Communicator* communicator) : inside_(communicator->impl_->progress()) {}
Communicator::Turn::~Turn() = default;

}  // namespace rz
