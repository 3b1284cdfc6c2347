#include "runtime/c_api/job_session.h"

#include <thread>

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
  if (!Take(State::kLook)) return std::nullopt;
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

absl::Status JobSession::failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

void JobSession::Keep(const absl::Status& cause) {
  MutexLock lock(&mutex_);
  if (failure_.ok()) failure_ = cause;
}

}  // namespace rz::c_api
