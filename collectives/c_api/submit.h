// From the arguments of a C function to a call: translated, then kept by the open group, or started
// and waited for, or started and made a request.
#ifndef RINGZERO_COLLECTIVES_C_API_SUBMIT_H_
#define RINGZERO_COLLECTIVES_C_API_SUBMIT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/c_api/comm_handle.h"
#include "collectives/call.h"

namespace rz::c_api {

// InvalidArgument: there is no such type.
absl::StatusOr<DType> ReadDType(rz_dtype_t dtype);

// Elements as the engine counts them, `blocks` times `count`.
//   InvalidArgument  more than 2^63 - 1
absl::StatusOr<int64_t> ReadCount(size_t count, int64_t blocks);

// One count a rank, into *read.
//   InvalidArgument  null, or one that is too large
absl::Status ReadCounts(const size_t* counts, const char* name, int world,
                        std::vector<int64_t>* read);

// A call of `collective` with what all have; for reductions also ReadOp.
absl::StatusOr<Call> MakeCall(Collective collective, const void* send, void* recv, rz_dtype_t dtype,
                              int32_t root);

// Where an operation that a communicator has made stands in its made_ops. Its number is
// {generation 15, kMadeOpBit, place 12}.
//   InvalidArgument  there is no such operation
inline constexpr int32_t kMadeOpBit = 0x1000;
absl::StatusOr<size_t> FindOp(const CommHandle& comm, rz_op_t op);

// Sets the call's operation: one of RZ_SUM .. RZ_PROD, or one of this communicator.
//   InvalidArgument  there is no such operation, or it is of another type
absl::Status ReadOp(CommHandle& comm, rz_op_t op, Call* call);

// Clears *request where there is one; in an open group there must be none.
absl::Status ReadRequest(const CommHandle& comm, rz_request_t** request);

// Of a v variant, call.counts are comm.counts, or of all_to_all_v comm.send_counts and, of
// recv_counts, comm.counts.
absl::Status Submit(CommHandle& comm, const Call& call, rz_request_t** request);
absl::Status SubmitMessage(CommHandle& comm, const Message& message, rz_request_t** request);
absl::Status SubmitGroup(CommHandle& comm, rz_request_t** request);

// Waits for all operations of a request up to `timeout`, and ends it.
absl::Status WaitFor(RequestTable::Pin request, absl::Duration timeout);

// True where all have completed, which does not end the request.
bool Poll(Request& request);

// Ends a request whose operations have all completed; the first of their failures.
absl::Status Finish(RequestTable::Pin request);

// Ends the handles of all requests of `comm`, whose operations go with it.
void DropRequests(CommHandle& comm);

}  // namespace rz::c_api

#endif  // RINGZERO_COLLECTIVES_C_API_SUBMIT_H_
