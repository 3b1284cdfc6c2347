#include "collectives/c_api/comm_handle.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace rz::c_api {

CommHandle::CommHandle(std::shared_ptr<JobSession> job_session, std::unique_ptr<Communicator> made,
                       CommSettings made_with)
    : session(std::move(job_session)),
      settings(std::move(made_with)),
      communicator(std::move(made)) {
  ++session->communicators;
}

CommHandle::~CommHandle() { --session->communicators; }

absl::StatusOr<CommUse> CommUse::Enter(const void* handle) {
  RZ_ASSIGN_OR_RETURN(CommTable::Pin pin, CommTable::Get().Find(handle));
  RZ_ASSIGN_OR_RETURN(JobSession::Use use, pin->session->Enter());
  return CommUse(std::move(pin), std::move(use));
}

absl::Status Outcome(const CommHandle& comm, const absl::Status& status) {
  if (status.ok()) [[likely]]
    return status;
  const absl::Status failure = comm.communicator->status();
  // What was refused before any traffic leaves the communicator as it was.
  return failure.ok() ? status : comm.session->FirstCause(failure);
}

void Abort(CommHandle& comm, const absl::Status& cause) {
  comm.session->Keep(cause);
  comm.communicator->Abort(cause);
  comm.session->job().ReportFailure(cause);
}

bool UserFunction::Combine(void* result, const void* a, const void* b, int64_t count, DType dtype) {
  int32_t outcome = 0;
  {
    const CallbackScope calling;
    outcome =
        function_(result, a, b, static_cast<size_t>(count), static_cast<rz_dtype_t>(dtype), user_);
  }
  if (outcome == 0) [[likely]]
    return true;
  Abort(*comm_, ErrorOf(RZ_ERROR_ABORTED,
                        absl::StrCat("function ", number_, " of the communicator returned ",
                                     outcome, " on rank ", comm_->communicator->rank().value())));
  return false;
}

}  // namespace rz::c_api
