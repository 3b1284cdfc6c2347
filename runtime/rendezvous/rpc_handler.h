// RpcHandler: between messages and RendezvousService. It translates and validates and decides
// nothing; what passes it is within limits.h. Knows the messages but not gRPC, so that tests and
// fuzzers drive it without a socket.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_RPC_HANDLER_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_RPC_HANDLER_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/rendezvous.pb.h"
#include "runtime/rendezvous/service.h"

namespace rz {

namespace pb = ::ringzero::rendezvous::v1;

// Thread-safe. Every call's `done` is called exactly once, perhaps before the call returns, with
// the codes of the service's call, or InvalidArgument where the message is malformed: then the
// service was not asked. A status that tells of a failed job carries a pb::Verdict as its payload
// kVerdictPayload. The ticket is for RendezvousService::Cancel; 0: answered already.
class RpcHandler {
 public:
  template <typename Response>
  using Done = std::function<void(const absl::Status&, const Response&)>;

  // `service` outlives this.
  explicit RpcHandler(RendezvousService* service) : service_(*service) {}

  Ticket Join(const pb::JoinRequest& request, Done<pb::JoinResponse> done);
  Ticket Peers(const pb::PeersRequest& request, Done<pb::PeersResponse> done);
  Ticket Watch(const pb::WatchRequest& request, Done<pb::WatchResponse> done);
  Ticket Barrier(const pb::BarrierRequest& request, Done<pb::BarrierResponse> done);
  Ticket ReportFailure(const pb::ReportFailureRequest& request,
                       Done<pb::ReportFailureResponse> done);
  Ticket Leave(const pb::LeaveRequest& request, Done<pb::LeaveResponse> done);
  Ticket Gathering(const pb::GatheringRequest& request, Done<pb::GatheringResponse> done);

  void Cancel(Ticket ticket) { service_.Cancel(ticket); }

 private:
  RendezvousService& service_;
};

// The translations, each with all its checks: InvalidArgument names the field, what was found and
// what is allowed.
absl::StatusOr<JoinRequest> ReadJoin(const pb::JoinRequest& request);
absl::Status CheckJobId(const std::string& job);
absl::StatusOr<MemberId> ReadMember(const pb::Member& member);
absl::StatusOr<BarrierRequest> ReadBarrier(const pb::BarrierRequest& request);
absl::StatusOr<FailureReport> ReadFailureReport(const pb::ReportFailureRequest& request);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_RPC_HANDLER_H_
