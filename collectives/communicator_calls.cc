// The methods of Communicator that make calls of their arguments.
#include "collectives/communicator_impl.h"
#include "runtime/base/status_macros.h"

namespace rz {

absl::StatusOr<Operation> Communicator::StartAllReduce(const void* send, void* recv, int64_t count,
                                                       DType dtype, ReduceOp op, CallOptions call) {
  return impl_->Start({
      .collective = Collective::kAllReduce,
      .send = send,
      .recv = recv,
      .count = count,
      .dtype = dtype,
      .op = op,
      .options = call,
  });
}

absl::StatusOr<Operation> Communicator::StartReduce(const void* send, void* recv, int64_t count,
                                                    DType dtype, ReduceOp op, Rank root,
                                                    CallOptions call) {
  return impl_->Start({
      .collective = Collective::kReduce,
      .send = send,
      .recv = recv,
      .count = count,
      .dtype = dtype,
      .op = op,
      .root = root,
      .options = call,
  });
}

absl::StatusOr<Operation> Communicator::StartReduceScatter(const void* send, void* recv,
                                                           int64_t count, DType dtype, ReduceOp op,
                                                           CallOptions call) {
  return impl_->Start({
      .collective = Collective::kReduceScatter,
      .send = send,
      .recv = recv,
      .count = count,
      .dtype = dtype,
      .op = op,
      .options = call,
  });
}

absl::StatusOr<Operation> Communicator::StartReduceScatterV(const void* send, void* recv,
                                                            absl::Span<const int64_t> counts,
                                                            DType dtype, ReduceOp op,
                                                            CallOptions call) {
  return impl_->Start({
      .collective = Collective::kReduceScatter,
      .send = send,
      .recv = recv,
      .dtype = dtype,
      .op = op,
      .options = call,
      .has_counts = true,
      .counts = counts,
  });
}

absl::StatusOr<Operation> Communicator::StartAllGather(const void* send, void* recv, int64_t count,
                                                       DType dtype, CallOptions call) {
  return impl_->Start({
      .collective = Collective::kAllGather,
      .send = send,
      .recv = recv,
      .count = count,
      .dtype = dtype,
      .options = call,
  });
}

absl::StatusOr<Operation> Communicator::StartAllGatherV(const void* send, void* recv,
                                                        absl::Span<const int64_t> counts,
                                                        DType dtype, CallOptions call) {
  return impl_->Start({
      .collective = Collective::kAllGather,
      .send = send,
      .recv = recv,
      .dtype = dtype,
      .options = call,
      .has_counts = true,
      .counts = counts,
  });
}

absl::StatusOr<Operation> Communicator::StartGather(const void* send, void* recv, int64_t count,
                                                    DType dtype, Rank root, CallOptions call) {
  return impl_->Start({
      .collective = Collective::kGather,
      .send = send,
      .recv = recv,
      .count = count,
      .dtype = dtype,
      .root = root,
      .options = call,
  });
}

absl::StatusOr<Operation> Communicator::StartScatter(const void* send, void* recv, int64_t count,
                                                     DType dtype, Rank root, CallOptions call) {
  return impl_->Start({
      .collective = Collective::kScatter,
      .send = send,
      .recv = recv,
      .count = count,
      .dtype = dtype,
      .root = root,
      .options = call,
  });
}

absl::StatusOr<Operation> Communicator::StartBroadcast(void* buffer, int64_t count, DType dtype,
                                                       Rank root) {
  return impl_->Start({
      .collective = Collective::kBroadcast,
      .send = buffer,
      .recv = buffer,
      .count = count,
      .dtype = dtype,
      .root = root,
  });
}

absl::StatusOr<Operation> Communicator::StartAllToAll(const void* send, void* recv, int64_t count,
                                                      DType dtype, CallOptions call) {
  return impl_->Start({
      .collective = Collective::kAllToAll,
      .send = send,
      .recv = recv,
      .count = count,
      .dtype = dtype,
      .options = call,
  });
}

absl::StatusOr<Operation> Communicator::StartAllToAllV(const void* send,
                                                       absl::Span<const int64_t> send_counts,
                                                       void* recv,
                                                       absl::Span<const int64_t> recv_counts,
                                                       DType dtype, CallOptions call) {
  return impl_->Start({
      .collective = Collective::kAllToAll,
      .send = send,
      .recv = recv,
      .dtype = dtype,
      .options = call,
      .has_counts = true,
      .counts = send_counts,
      .recv_counts = recv_counts,
  });
}

absl::StatusOr<Operation> Communicator::StartBarrier() {
  return impl_->Start({
      .collective = Collective::kBarrier,
  });
}

absl::StatusOr<Operation> Communicator::StartGroup(absl::Span<const Call> calls) {
  return impl_->StartGroup(calls);
}

absl::StatusOr<Operation> Communicator::StartSend(const void* buffer, int64_t count, DType dtype,
                                                  Rank peer) {
  // A send only reads; messages of both directions share one type.
  return impl_->StartMessage(true, const_cast<void*>(buffer), count, dtype, peer);
}

absl::StatusOr<Operation> Communicator::StartRecv(void* buffer, int64_t count, DType dtype,
                                                  Rank peer) {
  return impl_->StartMessage(false, buffer, count, dtype, peer);
}

absl::Status Communicator::AllReduce(const void* send, void* recv, int64_t count, DType dtype,
                                     ReduceOp op, CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartAllReduce(send, recv, count, dtype, op, call));
  return operation.Wait();
}

absl::Status Communicator::Reduce(const void* send, void* recv, int64_t count, DType dtype,
                                  ReduceOp op, Rank root, CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartReduce(send, recv, count, dtype, op, root, call));
  return operation.Wait();
}

absl::Status Communicator::ReduceScatter(const void* send, void* recv, int64_t count, DType dtype,
                                         ReduceOp op, CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartReduceScatter(send, recv, count, dtype, op, call));
  return operation.Wait();
}

absl::Status Communicator::ReduceScatterV(const void* send, void* recv,
                                          absl::Span<const int64_t> counts, DType dtype,
                                          ReduceOp op, CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation,
                      StartReduceScatterV(send, recv, counts, dtype, op, call));
  return operation.Wait();
}

absl::Status Communicator::AllGather(const void* send, void* recv, int64_t count, DType dtype,
                                     CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartAllGather(send, recv, count, dtype, call));
  return operation.Wait();
}

absl::Status Communicator::AllGatherV(const void* send, void* recv,
                                      absl::Span<const int64_t> counts, DType dtype,
                                      CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartAllGatherV(send, recv, counts, dtype, call));
  return operation.Wait();
}

absl::Status Communicator::Gather(const void* send, void* recv, int64_t count, DType dtype,
                                  Rank root, CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartGather(send, recv, count, dtype, root, call));
  return operation.Wait();
}

absl::Status Communicator::Scatter(const void* send, void* recv, int64_t count, DType dtype,
                                   Rank root, CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartScatter(send, recv, count, dtype, root, call));
  return operation.Wait();
}

absl::Status Communicator::Broadcast(void* buffer, int64_t count, DType dtype, Rank root) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartBroadcast(buffer, count, dtype, root));
  return operation.Wait();
}

absl::Status Communicator::AllToAll(const void* send, void* recv, int64_t count, DType dtype,
                                    CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartAllToAll(send, recv, count, dtype, call));
  return operation.Wait();
}

absl::Status Communicator::AllToAllV(const void* send, absl::Span<const int64_t> send_counts,
                                     void* recv, absl::Span<const int64_t> recv_counts, DType dtype,
                                     CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation,
                      StartAllToAllV(send, send_counts, recv, recv_counts, dtype, call));
  return operation.Wait();
}

absl::Status Communicator::Barrier() {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartBarrier());
  return operation.Wait();
}

absl::Status Communicator::RunGroup(absl::Span<const Call> calls) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartGroup(calls));
  return operation.Wait();
}

absl::Status Communicator::Send(const void* buffer, int64_t count, DType dtype, Rank peer) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartSend(buffer, count, dtype, peer));
  return operation.Wait();
}

absl::Status Communicator::Recv(void* buffer, int64_t count, DType dtype, Rank peer) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartRecv(buffer, count, dtype, peer));
  return operation.Wait();
}

}  // namespace rz
