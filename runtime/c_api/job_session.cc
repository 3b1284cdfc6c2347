#include "runtime/c_api/job_session.h"

#include <thread>

#include "runtime/base/status_macros.h"

namespace rz::c_api {
namespace {

thread_local int callbacks = 0;

}  // namespace

CallbackScope::CallbackScope() { ++callbacks; }
CallbackScope::~CallbackScope() { --callbacks; }

bool JobSession::Take(State next) {
  State found = State::kFree;
  while (!state_.compare_exchange_weak(found, next, std::memory_order_acquire)) {
    if (found == State::kCall) return false;
    if (found == State::kLook) std::this_thread::yield();
    found = State::kFree;
  }
  return true;
}

std::optional<JobSession::Use> JobSession::Look() {
  // A function of the caller's may be within a poll, whose lock is not this thread's to take again.
  if (callbacks > 0 || !Take(State::kLook)) return std::nullopt;
  return Use(this);
}

absl::StatusOr<JobSession::Use> JobSession::Enter() {
  if (callbacks > 0) {
    return ErrorOf(
        RZ_ERROR_WRONG_THREAD,
        "this is a function that ringzero calls, and it may not call back; return first");
  }
  if (Take(State::kCall)) return Use(this);
  return ErrorOf(RZ_ERROR_WRONG_THREAD,
                 "another thread is within a call of this job, or this is a callback within one; "
                 "let one thread at a time make calls");
}

absl::Status JobSession::FirstCause(const absl::Status& own) {
  if (absl::Status known = failure(); !known.ok()) return known;
  Keep(job_->FirstCause(own));
  return failure();
}

absl::StatusOr<std::shared_ptr<JobSession>> JobSession::Rebuild(int least_ranks,
                                                                absl::Duration wait) {
  if (successor_ != nullptr) {
    if (successor_->failure().ok()) {
      return absl::FailedPreconditionError(
          "this job has been rebuilt, and what came of it has not failed: use that communicator");
    }
    RZ_ASSIGN_OR_RETURN(const Use use, successor_->Enter());
    return successor_->Rebuild(least_ranks, wait);
  }
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, make_transport_());
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<Job> job,
                      job_->Rebuild(std::move(transport), least_ranks, wait));
  successor_ = std::make_shared<JobSession>(std::move(job), only_network_, make_transport_);
  successor_->set_handle(handle_);
  // Where it fails, it is the successor that those that are left rebuild.
  if (const absl::Status connected = successor_->job().Connect(); !connected.ok()) {
    successor_->Keep(connected);
    return connected;
  }
  RZ_ASSIGN_OR_RETURN(const auto handle, JobTable::Get().Find(handle_));
  handle->Replace(successor_);
  return successor_;
}

absl::Status JobSession::failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

void JobSession::Keep(const absl::Status& cause) {
  MutexLock lock(&mutex_);
  if (failure_.ok()) failure_ = cause;
}

}  // namespace rz::c_api
