// Requests and groups of the C interface.
#include <utility>

#include "collectives/c_api/comm_handle.h"
#include "collectives/c_api/submit.h"
#include "runtime/base/status_macros.h"

namespace rz::c_api {
namespace {

constexpr absl::Duration kLongestWait = absl::Hours(24);

}  // namespace
}  // namespace rz::c_api

using namespace rz::c_api;  // NOLINT: the functions below are its face

rz_result_t rz_wait(rz_request_t** request, double timeout) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(request, "request"));
    RZ_ASSIGN_OR_RETURN(const absl::Duration time,
                        ReadSeconds(timeout, "timeout", absl::InfiniteDuration(), kLongestWait));
    if (*request == nullptr) return absl::OkStatus();
    RZ_ASSIGN_OR_RETURN(auto found, RequestTable::Get().Find(*request));
    RZ_ASSIGN_OR_RETURN(const auto use, found->comm->session->Enter());
    *request = nullptr;
    return WaitFor(std::move(found), time);
  });
}

rz_result_t rz_test(rz_request_t** request, int32_t* done) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(request, "request"));
    RZ_RETURN_IF_ERROR(CheckNotNull(done, "done"));
    *done = *request == nullptr ? 1 : 0;
    if (*request == nullptr) return absl::OkStatus();
    RZ_ASSIGN_OR_RETURN(auto found, RequestTable::Get().Find(*request));
    RZ_ASSIGN_OR_RETURN(const auto use, found->comm->session->Enter());
    if (!Poll(*found)) return absl::OkStatus();
    *done = 1;
    *request = nullptr;
    return Finish(std::move(found));
  });
}

rz_result_t rz_group_start(rz_comm_t* comm) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    if (use->group.is_open) {
      return absl::FailedPreconditionError("a group is open; rz_group_end comes first");
    }
    use->group.is_open = true;
    return absl::OkStatus();
  });
}

rz_result_t rz_group_end(rz_comm_t* comm, rz_request_t** request) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    if (request != nullptr) *request = nullptr;
    if (!use->group.is_open) {
      return absl::FailedPreconditionError("no group is open; rz_group_start comes first");
    }
    return SubmitGroup(*use, request);
  });
}
