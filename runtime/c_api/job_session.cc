#include "runtime/c_api/job_session.h"

namespace rz::c_api {
namespace {

thread_local int callbacks = 0;

}  // namespace

CallbackScope::CallbackScope() { ++callbacks; }
CallbackScope::~CallbackScope() { --callbacks; }

absl::StatusOr<JobSession::Use> JobSession::Enter() {
  if (callbacks > 0) {
    return ErrorOf(
        RZ_ERROR_WRONG_THREAD,
        "this is a function that ringzero calls, and it may not call back; return first");
  }
  if (!in_use_.exchange(true, std::memory_order_acquire)) return Use(this);
  return ErrorOf(RZ_ERROR_WRONG_THREAD,
                 "another thread is within a call of this job, or this is a callback within one; "
                 "let one thread at a time make calls");
}

absl::Status JobSession::FirstCause(const absl::Status& own) {
  if (absl::Status known = failure(); !known.ok()) return known;
  Keep(job_->FirstCause(own));
  return failure();
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
