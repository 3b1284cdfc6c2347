#include "tools/bench/subject.h"

#include "runtime/base/status_macros.h"

namespace rz {

absl::Status CommunicatorSubject::Run(const MeasuredCall& call) {
  if (call.operation == BenchOperation::kSendRecv) return RunMessages(call);
  if (call.calls.size() == 1) return RunOne(call.calls[0]);
  return communicator_.RunGroup(call.calls);
}

absl::Status CommunicatorSubject::RunOne(const Call& c) {
  Communicator& comm = communicator_;
  switch (c.collective) {
    case Collective::kAllReduce:
      return comm.AllReduce(c.send, c.recv, c.count, c.dtype, c.op, c.options);
    case Collective::kReduceScatter:
      return c.has_counts ? comm.ReduceScatterV(c.send, c.recv, c.counts, c.dtype, c.op, c.options)
                          : comm.ReduceScatter(c.send, c.recv, c.count, c.dtype, c.op, c.options);
    case Collective::kAllGather:
      return c.has_counts ? comm.AllGatherV(c.send, c.recv, c.counts, c.dtype, c.options)
                          : comm.AllGather(c.send, c.recv, c.count, c.dtype, c.options);
    case Collective::kBroadcast:
      return comm.Broadcast(c.recv, c.count, c.dtype, c.root);
    case Collective::kReduce:
      return comm.Reduce(c.send, c.recv, c.count, c.dtype, c.op, c.root, c.options);
    case Collective::kAllToAll:
      return c.has_counts
                 ? comm.AllToAllV(c.send, c.counts, c.recv, c.recv_counts, c.dtype, c.options)
                 : comm.AllToAll(c.send, c.recv, c.count, c.dtype, c.options);
    case Collective::kGather:
      return comm.Gather(c.send, c.recv, c.count, c.dtype, c.root, c.options);
    case Collective::kScatter:
      return comm.Scatter(c.send, c.recv, c.count, c.dtype, c.root, c.options);
    case Collective::kBarrier:
      return comm.Barrier();
  }
  return absl::InternalError("no such collective");
}

absl::Status CommunicatorSubject::RunMessages(const MeasuredCall& call) {
  operations_.clear();
  for (const Call& c : call.calls) {
    RZ_ASSIGN_OR_RETURN(const Operation receive,
                        communicator_.StartRecv(c.recv, c.count, c.dtype, call.previous));
    operations_.push_back(receive);
    RZ_ASSIGN_OR_RETURN(const Operation send,
                        communicator_.StartSend(c.send, c.count, c.dtype, call.next));
    operations_.push_back(send);
  }
  for (Operation& operation : operations_) RZ_RETURN_IF_ERROR(operation.Wait());
  return absl::OkStatus();
}

}  // namespace rz
