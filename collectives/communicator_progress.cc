// How a communicator takes turns with its progress thread, and moves others of its transport.
#include "collectives/communicator_impl.h"
#include "collectives/limits.h"
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

int Communicator::Impl::PollAll() {
  const int moved = Poll();
  return progress_ == nullptr ? moved : moved + progress_->MoveOthers(this);
}

Deadline Communicator::Impl::NextLook(Deadline deadline) const {
  if (progress_ == nullptr || !progress_->OthersNeedLooks(this)) return deadline;
  const Deadline look = Deadline::After(*options_.clock, kSharedLook);
  return deadline.at() < look.at() ? deadline : look;
}

bool Communicator::Impl::NeedsPolls() const {
  if (!quiet()) return true;
  const bool settled = shared_ == nullptr ? guard_->caught_up() : shared_->exchange().settled();
  return !executor_->failed() && !settled;
}

absl::Status Communicator::StartProgressThread() { return impl_->StartProgressThread(); }
void Communicator::StopProgressThread() { impl_->StopProgressThread(); }
bool Communicator::has_progress_thread() const { return impl_->has_progress_thread(); }

Communicator::Turn::Turn(Communicator* communicator) : inside_(communicator->impl_->progress()) {}
Communicator::Turn::~Turn() = default;

}  // namespace rz
