#include "collectives/c_api/submit.h"

#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "collectives/call_check.h"
#include "runtime/base/status_macros.h"

namespace rz::c_api {
namespace {

absl::StatusOr<Operation> Start(Communicator& on, const Call& call) {
  switch (call.collective) {
    case Collective::kAllReduce:
      return on.StartAllReduce(call.send, call.recv, call.count, call.dtype, call.op, call.options);
    case Collective::kReduce:
      return on.StartReduce(call.send, call.recv, call.count, call.dtype, call.op, call.root,
                            call.options);
    case Collective::kReduceScatter:
      if (!call.has_counts) {
        return on.StartReduceScatter(call.send, call.recv, call.count, call.dtype, call.op,
                                     call.options);
      }
      return on.StartReduceScatterV(call.send, call.recv, call.counts, call.dtype, call.op,
                                    call.options);
    case Collective::kAllGather:
      if (!call.has_counts) {
        return on.StartAllGather(call.send, call.recv, call.count, call.dtype);
      }
      return on.StartAllGatherV(call.send, call.recv, call.counts, call.dtype);
    case Collective::kGather:
      return on.StartGather(call.send, call.recv, call.count, call.dtype, call.root);
    case Collective::kScatter:
      return on.StartScatter(call.send, call.recv, call.count, call.dtype, call.root);
    case Collective::kBroadcast:
      return on.StartBroadcast(call.recv, call.count, call.dtype, call.root);
    case Collective::kAllToAll:
      if (!call.has_counts) {
        return on.StartAllToAll(call.send, call.recv, call.count, call.dtype);
      }
      return on.StartAllToAllV(call.send, call.counts, call.recv, call.recv_counts, call.dtype);
    case Collective::kBarrier:
      return on.StartBarrier();
  }
  return absl::InternalError("a collective that is none");
}

absl::StatusOr<Operation> Start(Communicator& on, const Message& message) {
  return message.is_send ? on.StartSend(message.buffer, message.count, message.dtype, message.peer)
                         : on.StartRecv(message.buffer, message.count, message.dtype, message.peer);
}

// A request of `comm` without operations yet, and its handle.
absl::StatusOr<Request*> NewRequest(CommHandle& comm, rz_request_t** handle) {
  if (comm.spare_requests.empty()) comm.spare_requests.push_back(std::make_unique<Request>());
  Request* const request = comm.spare_requests.back().get();
  request->comm = &comm;
  request->operations.clear();
  RZ_ASSIGN_OR_RETURN(void* const value, RequestTable::Get().Insert(request));
  request->handle = value;
  request->place = comm.requests.size();
  comm.requests.push_back(std::move(comm.spare_requests.back()));
  comm.spare_requests.pop_back();
  *handle = static_cast<rz_request_t*>(value);
  return request;
}

// Takes a request whose handle has ended out of the live ones.
void Recycle(Request* request) {
  CommHandle& comm = *request->comm;
  comm.spare_requests.push_back(std::move(comm.requests[request->place]));
  if (request->place + 1 != comm.requests.size()) {
    comm.requests[request->place] = std::move(comm.requests.back());
    comm.requests[request->place]->place = request->place;
  }
  comm.requests.pop_back();
}

absl::Status Await(CommHandle& comm, absl::StatusOr<Operation> started, rz_request_t** request) {
  if (!started.ok()) return Outcome(comm, started.status());
  if (request == nullptr) return Outcome(comm, started->Wait());
  RZ_ASSIGN_OR_RETURN(Request* const made, NewRequest(comm, request));
  made->operations.push_back(*started);
  return absl::OkStatus();
}

absl::Status Keep(CommHandle& comm, const Call& call) {
  Communicator& on = *comm.communicator;
  RZ_RETURN_IF_ERROR(CheckCall(call, on.rank(), on.world_size()));
  comm.group.counts.insert(comm.group.counts.end(), call.counts.begin(), call.counts.end());
  comm.group.counts.insert(comm.group.counts.end(), call.recv_counts.begin(),
                           call.recv_counts.end());
  comm.group.calls.push_back(call);
  return absl::OkStatus();
}

// Points the v variants of the group at their counts, which have stopped moving.
void PlaceCounts(OpenGroup& group) {
  size_t at = 0;
  for (Call& call : group.calls) {
    for (absl::Span<const int64_t>* counts : {&call.counts, &call.recv_counts}) {
      *counts = absl::MakeConstSpan(group.counts).subspan(at, counts->size());
      at += counts->size();
    }
  }
}

void CloseGroup(OpenGroup& group) {
  group.is_open = false;
  group.calls.clear();
  group.messages.clear();
  group.counts.clear();
}

absl::Status StartAll(CommHandle& comm, std::vector<Operation>* operations) {
  Communicator& on = *comm.communicator;
  if (!comm.group.calls.empty()) {
    RZ_ASSIGN_OR_RETURN(const Operation started, on.StartGroup(comm.group.calls));
    operations->push_back(started);
  }
  for (const Message& message : comm.group.messages) {
    RZ_ASSIGN_OR_RETURN(const Operation started, Start(on, message));
    operations->push_back(started);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DType> ReadDType(rz_dtype_t dtype) {
  if (dtype >= 0 && dtype < static_cast<rz_dtype_t>(std::size(kAllDTypes))) [[likely]]
    return kAllDTypes[dtype];
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no element type ", dtype, "; they go from 0 to ", std::size(kAllDTypes) - 1));
}

absl::StatusOr<int64_t> ReadCount(size_t count, int64_t blocks) {
  int64_t total = 0;
  if (!__builtin_mul_overflow(count, blocks, &total)) [[likely]]
    return total;
  return absl::InvalidArgumentError(
      absl::StrCat(count, " elements, ", blocks, " times, are more than 64 bits can count"));
}

absl::Status ReadCounts(const size_t* counts, const char* name, int world,
                        std::vector<int64_t>* read) {
  RZ_RETURN_IF_ERROR(CheckNotNull(counts, name));
  read->clear();
  for (int r = 0; r < world; ++r) {
    RZ_ASSIGN_OR_RETURN(const int64_t count, ReadCount(counts[r], 1));
    read->push_back(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<Call> MakeCall(Collective collective, const void* send, void* recv, rz_dtype_t dtype,
                              int32_t root) {
  Call call;
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  RZ_ASSIGN_OR_RETURN(call.dtype, ReadDType(dtype));
  call.root = Rank(root);
  return call;
}

absl::StatusOr<size_t> FindOp(const CommHandle& comm, rz_op_t op) {
  const auto place = static_cast<size_t>(op & (kMadeOpBit - 1));
  if (op < 0 || (op & kMadeOpBit) == 0 || place >= kMaxMadeOps || !comm.made_ops[place].exists ||
      comm.made_ops[place].generation != op >> 16) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no operation ", op, " on this communicator"));
  }
  return place;
}

absl::Status ReadOp(CommHandle& comm, rz_op_t op, Call* call) {
  if (op >= RZ_SUM && op <= RZ_PROD) [[likely]] {
    call->op = kAllReduceOps[op];
    return absl::OkStatus();
  }
  RZ_ASSIGN_OR_RETURN(const size_t place, FindOp(comm, op));
  MadeOp& made = comm.made_ops[place];
  if (made.function.has_value()) {
    call->op = ReduceOp::kFunction;
    call->options.function = &*made.function;
    return absl::OkStatus();
  }
  if (made.dtype != call->dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("operation ", op, " was made for ", std::string(NameOf(made.dtype)),
                     ", and the call is of ", std::string(NameOf(call->dtype))));
  }
  call->op = ReduceOp::kPremulSum;
  call->options.premul = made.factor;
  return absl::OkStatus();
}

absl::Status ReadRequest(const CommHandle& comm, rz_request_t** request) {
  if (request == nullptr) return absl::OkStatus();
  *request = nullptr;
  if (!comm.group.is_open) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a group is open: its calls have no requests of their own; give one to rz_group_end");
}

absl::Status Submit(CommHandle& comm, const Call& call, rz_request_t** request) {
  if (comm.group.is_open) return Outcome(comm, Keep(comm, call));
  return Await(comm, Start(*comm.communicator, call), request);
}

absl::Status SubmitMessage(CommHandle& comm, const Message& message, rz_request_t** request) {
  Communicator& on = *comm.communicator;
  if (comm.group.is_open) {
    RZ_RETURN_IF_ERROR(CheckMessage(message.is_send ? "send" : "recv", message.buffer,
                                    message.count, message.dtype, message.peer, on.rank(),
                                    on.world_size()));
    comm.group.messages.push_back(message);
    return absl::OkStatus();
  }
  if (request == nullptr && message.peer == on.rank()) {
    return absl::InvalidArgumentError(
        "a blocking message to or from this rank itself would never end; give it a request");
  }
  return Await(comm, Start(on, message), request);
}

absl::Status SubmitGroup(CommHandle& comm, rz_request_t** request) {
  PlaceCounts(comm.group);
  rz_request_t* handle = nullptr;
  RZ_ASSIGN_OR_RETURN(Request* const made, NewRequest(comm, &handle));
  const absl::Status started = StartAll(comm, &made->operations);
  CloseGroup(comm.group);
  if (started.ok() && request != nullptr) {
    *request = handle;
    return absl::OkStatus();
  }
  RZ_ASSIGN_OR_RETURN(auto pin, RequestTable::Get().Find(handle));
  if (!started.ok()) {
    // What has been started goes on; the handle was told to nobody.
    static_cast<void>(RequestTable::Get().Close(std::move(pin)));
    Recycle(made);
    return Outcome(comm, started);
  }
  return WaitFor(std::move(pin), absl::InfiniteDuration());
}

absl::Status WaitFor(RequestTable::Pin request, absl::Duration timeout) {
  for (Operation& operation : request->operations) {
    const absl::Status status =
        timeout == absl::InfiniteDuration() ? operation.Wait() : operation.Wait(timeout);
    if (!status.ok()) break;
  }
  return Finish(std::move(request));
}

bool Poll(Request& request) {
  bool done = true;
  for (Operation& operation : request.operations) done = operation.Poll() && done;
  return done;
}

absl::Status Finish(RequestTable::Pin request) {
  absl::Status status;
  for (const Operation& operation : request->operations) {
    if (status.ok()) status = operation.status();
  }
  CommHandle& comm = *request->comm;
  Request* const ended = RequestTable::Get().Close(std::move(request));
  if (ended == nullptr) return absl::InternalError("a request was ended twice");
  Recycle(ended);
  return Outcome(comm, status);
}

void DropRequests(CommHandle& comm) {
  while (!comm.requests.empty()) {
    Request* const request = comm.requests.back().get();
    if (auto pin = RequestTable::Get().Find(request->handle); pin.ok()) {
      static_cast<void>(RequestTable::Get().Close(*std::move(pin)));
    }
    Recycle(request);
  }
}

}  // namespace rz::c_api
