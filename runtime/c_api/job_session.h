// JobSession: a job as the C interface has it. One thread at a time is within it; what it failed of
// is told once and kept.
#ifndef RINGZERO_RUNTIME_C_API_JOB_SESSION_H_
#define RINGZERO_RUNTIME_C_API_JOB_SESSION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/sync.h"
#include "runtime/c_api/call_scope.h"
#include "runtime/c_api/handle_table.h"
#include "runtime/job.h"

namespace rz::c_api {

class JobSession {
 public:
  using MakeTransport = std::function<absl::StatusOr<std::unique_ptr<Transport>>()>;

  // `only_network`: the transport was asked for TCP alone. `make_transport` makes more like it.
  JobSession(std::unique_ptr<Job> job, bool only_network, MakeTransport make_transport)
      : job_(std::move(job)),
        only_network_(only_network),
        make_transport_(std::move(make_transport)) {}

  // The rz_job_t that this is of. Set once, before the session is shared.
  void set_handle(const void* handle) { handle_ = handle; }

  // This job with those that are left of it, which has failed; from here on rz_job_t is that one.
  // Where a job that came of this one has failed in its turn, those that are left of that. For the
  // thread that is within a call.
  //   FailedPrecondition  this job has been rebuilt, and what came of it has not failed
  //   otherwise           as Job::Rebuild and Job::Connect; this may be called again
  absl::StatusOr<std::shared_ptr<JobSession>> Rebuild(int least_ranks, absl::Duration wait);

  // Says that this rank is done; where what came of this job was never connected, with that.
  absl::Status Leave() { return successor_ != nullptr ? successor_->Leave() : job_->Leave(); }

  Job& job() { return *job_; }
  bool only_network() const { return only_network_; }

  // Communicators that are made of it, and the number of the next that is of all its ranks.
  std::atomic<int> communicators{0};
  uint32_t next_communicator_id = 0;

  // Within a call of the job, by one thread. Movable.
  class Use {
   public:
    Use(Use&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (session_ != nullptr) session_->state_.store(State::kFree, std::memory_order_release);
    }

   private:
    friend class JobSession;
    explicit Use(JobSession* session) : session_(session) {}
    JobSession* session_;
  };

  // RZ_ERROR_WRONG_THREAD: another thread, or this one further up, is within a call, or this is a
  // function of the caller's (CallbackScope). Waits for a Look, which takes a moment.
  absl::StatusOr<Use> Enter();

  // For functions of any thread that read what a call might change: they refuse nobody. None where
  // a thread is within a call.
  std::optional<Use> Look();

  // What the job failed of; `own` is how this rank sees it, told to the others where they do not
  // know. May wait some seconds the first time. For the thread that is within a call.
  absl::Status FirstCause(const absl::Status& own);

  // Makes `cause` what the job has failed of, unless it has failed already. Any thread.
  void Keep(const absl::Status& cause);

  // OK, or what was kept. Any thread.
  absl::Status failure() const;

 private:
  enum class State { kFree, kCall, kLook };

  // Makes it `next` as soon as nobody looks; false: a thread is within a call.
  bool Take(State next);

  const std::unique_ptr<Job> job_;
  const bool only_network_;
  const MakeTransport make_transport_;
  const void* handle_ = nullptr;
  std::shared_ptr<JobSession> successor_;  // what came of a rebuild
  std::atomic<State> state_{State::kFree};
  mutable Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

// Around a function of the caller's, which is called on whatever thread moves operations.
class [[nodiscard]] CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
};

// The session stays while its communicators do; a rebuild puts another in its place. Any thread.
class JobHandle {
 public:
  explicit JobHandle(std::shared_ptr<JobSession> session) : session_(std::move(session)) {}

  std::shared_ptr<JobSession> session() const {
    MutexLock lock(&mutex_);
    return session_;
  }
  void Replace(std::shared_ptr<JobSession> session) {
    MutexLock lock(&mutex_);
    session_ = std::move(session);
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<JobSession> session_ ABSL_GUARDED_BY(mutex_);
};
using JobTable = HandleTable<JobHandle, HandleKind::kJob>;

}  // namespace rz::c_api

#endif  // RINGZERO_RUNTIME_C_API_JOB_SESSION_H_
