// The collectives and messages of the C interface: arguments in, a Call out (submit.h).
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"
#include "collectives/c_api/comm_handle.h"
#include "collectives/c_api/submit.h"
#include "runtime/base/status_macros.h"

namespace rz::c_api {
namespace {

// `fill` completes the call, given the communicator.
template <typename Fill>
rz_result_t Run(const char* function, rz_comm_t* comm, rz_request_t** request, const Fill& fill) {
  return Guarded(function, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    RZ_RETURN_IF_ERROR(ReadRequest(*use, request));
    RZ_ASSIGN_OR_RETURN(const Call call, fill(*use));
    return Submit(*use, call, request);
  });
}

// Of collectives in which `count` is that of one block, of as many as there are ranks: the engine
// counts all blocks together, all_to_all alone one of them.
absl::StatusOr<Call> WithBlocks(Call call, const CommHandle& comm, size_t count) {
  const int world = comm.communicator->world_size();
  RZ_ASSIGN_OR_RETURN(const int64_t all, ReadCount(count, world));
  call.count = call.collective == Collective::kAllToAll ? all / world : all;
  return call;
}

absl::StatusOr<Call> WithWhole(Call call, size_t count) {
  RZ_ASSIGN_OR_RETURN(call.count, ReadCount(count, 1));
  return call;
}

absl::StatusOr<Call> WithCounts(Call call, CommHandle& comm, const size_t* counts,
                                const char* name) {
  RZ_RETURN_IF_ERROR(ReadCounts(counts, name, comm.communicator->world_size(), &comm.counts));
  call.has_counts = true;
  call.counts = comm.counts;
  return call;
}

// The root's sendbuff comes to its recvbuff, from where it is spread.
absl::Status CopyForBroadcast(const Call& call, const void* send, void* recv, bool is_root) {
  if (!is_root || send == recv || call.count == 0) return absl::OkStatus();
  RZ_RETURN_IF_ERROR(CheckNotNull(send, "sendbuff"));
  RZ_RETURN_IF_ERROR(CheckNotNull(recv, "recvbuff"));
  size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(call.count), SizeOf(call.dtype), &bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(call.count, " elements have more bytes than 64 bits can count"));
  }
  const auto from = reinterpret_cast<uintptr_t>(send);
  const auto to = reinterpret_cast<uintptr_t>(recv);
  if (from < to ? to - from < bytes : from - to < bytes) {
    return absl::InvalidArgumentError("sendbuff and recvbuff overlap, and are not the same");
  }
  std::memcpy(recv, send, bytes);
  return absl::OkStatus();
}

absl::StatusOr<Message> MakeMessage(bool is_send, void* buffer, size_t count, rz_dtype_t dtype,
                                    int32_t peer) {
  Message message;
  message.is_send = is_send;
  message.buffer = buffer;
  RZ_ASSIGN_OR_RETURN(message.count, ReadCount(count, 1));
  RZ_ASSIGN_OR_RETURN(message.dtype, ReadDType(dtype));
  message.peer = Rank(peer);
  return message;
}

rz_result_t RunMessage(const char* function, rz_comm_t* comm, rz_request_t** request,
                       const absl::StatusOr<Message>& message) {
  return Guarded(function, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    RZ_RETURN_IF_ERROR(ReadRequest(*use, request));
    RZ_RETURN_IF_ERROR(message.status());
    return SubmitMessage(*use, *message, request);
  });
}

}  // namespace
}  // namespace rz::c_api

using namespace rz::c_api;  // NOLINT: the functions below are its face
using rz::Call;
using rz::Collective;

rz_result_t rz_all_reduce(const void* sendbuff, void* recvbuff, size_t count, rz_dtype_t dtype,
                          rz_op_t op, rz_comm_t* comm, rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle& on) -> absl::StatusOr<Call> {
    RZ_ASSIGN_OR_RETURN(Call call, MakeCall(Collective::kAllReduce, sendbuff, recvbuff, dtype, 0));
    RZ_RETURN_IF_ERROR(ReadOp(on, op, &call));
    return WithWhole(call, count);
  });
}

rz_result_t rz_reduce(const void* sendbuff, void* recvbuff, size_t count, rz_dtype_t dtype,
                      rz_op_t op, int32_t root, rz_comm_t* comm, rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle& on) -> absl::StatusOr<Call> {
    RZ_ASSIGN_OR_RETURN(Call call, MakeCall(Collective::kReduce, sendbuff, recvbuff, dtype, root));
    RZ_RETURN_IF_ERROR(ReadOp(on, op, &call));
    return WithWhole(call, count);
  });
}

rz_result_t rz_reduce_scatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                              rz_dtype_t dtype, rz_op_t op, rz_comm_t* comm,
                              rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle& on) -> absl::StatusOr<Call> {
    RZ_ASSIGN_OR_RETURN(Call call,
                        MakeCall(Collective::kReduceScatter, sendbuff, recvbuff, dtype, 0));
    RZ_RETURN_IF_ERROR(ReadOp(on, op, &call));
    return WithBlocks(call, on, recvcount);
  });
}

rz_result_t rz_reduce_scatter_v(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                rz_dtype_t dtype, rz_op_t op, rz_comm_t* comm,
                                rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle& on) -> absl::StatusOr<Call> {
    RZ_ASSIGN_OR_RETURN(Call call,
                        MakeCall(Collective::kReduceScatter, sendbuff, recvbuff, dtype, 0));
    RZ_RETURN_IF_ERROR(ReadOp(on, op, &call));
    return WithCounts(call, on, recvcounts, "recvcounts");
  });
}

rz_result_t rz_all_gather(const void* sendbuff, void* recvbuff, size_t sendcount, rz_dtype_t dtype,
                          rz_comm_t* comm, rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle& on) -> absl::StatusOr<Call> {
    RZ_ASSIGN_OR_RETURN(const Call call,
                        MakeCall(Collective::kAllGather, sendbuff, recvbuff, dtype, 0));
    return WithBlocks(call, on, sendcount);
  });
}

rz_result_t rz_all_gather_v(const void* sendbuff, void* recvbuff, const size_t* counts,
                            rz_dtype_t dtype, rz_comm_t* comm, rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle& on) -> absl::StatusOr<Call> {
    RZ_ASSIGN_OR_RETURN(const Call call,
                        MakeCall(Collective::kAllGather, sendbuff, recvbuff, dtype, 0));
    return WithCounts(call, on, counts, "counts");
  });
}

rz_result_t rz_gather(const void* sendbuff, void* recvbuff, size_t sendcount, rz_dtype_t dtype,
                      int32_t root, rz_comm_t* comm, rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle& on) -> absl::StatusOr<Call> {
    RZ_ASSIGN_OR_RETURN(const Call call,
                        MakeCall(Collective::kGather, sendbuff, recvbuff, dtype, root));
    return WithBlocks(call, on, sendcount);
  });
}

rz_result_t rz_scatter(const void* sendbuff, void* recvbuff, size_t recvcount, rz_dtype_t dtype,
                       int32_t root, rz_comm_t* comm, rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle& on) -> absl::StatusOr<Call> {
    RZ_ASSIGN_OR_RETURN(const Call call,
                        MakeCall(Collective::kScatter, sendbuff, recvbuff, dtype, root));
    return WithBlocks(call, on, recvcount);
  });
}

rz_result_t rz_broadcast(const void* sendbuff, void* recvbuff, size_t count, rz_dtype_t dtype,
                         int32_t root, rz_comm_t* comm, rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle& on) -> absl::StatusOr<Call> {
    RZ_ASSIGN_OR_RETURN(Call call,
                        MakeCall(Collective::kBroadcast, recvbuff, recvbuff, dtype, root));
    RZ_ASSIGN_OR_RETURN(call, WithWhole(call, count));
    const bool is_root = on.communicator->rank() == rz::Rank(root);
    RZ_RETURN_IF_ERROR(CopyForBroadcast(call, sendbuff, recvbuff, is_root));
    return call;
  });
}

rz_result_t rz_all_to_all(const void* sendbuff, void* recvbuff, size_t count, rz_dtype_t dtype,
                          rz_comm_t* comm, rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle& on) -> absl::StatusOr<Call> {
    RZ_ASSIGN_OR_RETURN(const Call call,
                        MakeCall(Collective::kAllToAll, sendbuff, recvbuff, dtype, 0));
    return WithBlocks(call, on, count);
  });
}

rz_result_t rz_all_to_all_v(const void* sendbuff, const size_t* sendcounts, void* recvbuff,
                            const size_t* recvcounts, rz_dtype_t dtype, rz_comm_t* comm,
                            rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle& on) -> absl::StatusOr<Call> {
    RZ_ASSIGN_OR_RETURN(Call call, MakeCall(Collective::kAllToAll, sendbuff, recvbuff, dtype, 0));
    RZ_RETURN_IF_ERROR(
        ReadCounts(sendcounts, "sendcounts", on.communicator->world_size(), &on.send_counts));
    RZ_ASSIGN_OR_RETURN(call, WithCounts(call, on, recvcounts, "recvcounts"));
    call.counts = on.send_counts;
    call.recv_counts = on.counts;
    return call;
  });
}

rz_result_t rz_barrier(rz_comm_t* comm, rz_request_t** request) {
  return Run(__func__, comm, request, [&](CommHandle&) -> absl::StatusOr<Call> { return Call(); });
}

rz_result_t rz_send(const void* sendbuff, size_t count, rz_dtype_t dtype, int32_t peer,
                    rz_comm_t* comm, rz_request_t** request) {
  // A send only reads; messages of both directions share one type.
  return RunMessage(__func__, comm, request,
                    MakeMessage(true, const_cast<void*>(sendbuff), count, dtype, peer));
}

rz_result_t rz_recv(void* recvbuff, size_t count, rz_dtype_t dtype, int32_t peer, rz_comm_t* comm,
                    rz_request_t** request) {
  return RunMessage(__func__, comm, request, MakeMessage(false, recvbuff, count, dtype, peer));
}
