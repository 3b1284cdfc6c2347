#include "runtime/rendezvous/rpc_handler.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "runtime/rendezvous/limits.h"
#include "runtime/rendezvous/membership_text.h"
#include "runtime/rendezvous/wire.h"

namespace rz {
namespace {

pb::Verdict ToMessage(const Verdict& verdict) {
  pb::Verdict message;
  message.set_epoch(verdict.epoch.value());
  message.set_rank(verdict.rank.value());
  message.set_message(verdict.message);
  return message;
}

// The status of `reply`, with the verdict where it tells of one.
absl::Status StatusOf(const Reply& reply) {
  absl::Status status = reply.status;
  if (!status.ok() && reply.verdict.has_value()) {
    status.SetPayload(kVerdictPayload, absl::Cord(ToMessage(*reply.verdict).SerializeAsString()));
  }
  return status;
}

// Adds addresses from `first` on to `page` as far as they fit; always at least one.
template <typename Page>
void FillPage(const Addresses& addresses, size_t first, Page* page) {
  // Tag and length of a bytes field of at most kMaxAddressBytes.
  constexpr size_t kFieldOverhead = 4;
  size_t bytes = 0;
  for (size_t rank = first; rank < addresses.size(); ++rank) {
    bytes += addresses[rank].size() + kFieldOverhead;
    if (bytes > limits::kMaxPageBytes && rank > first) return;
    page->add_addresses(addresses[rank]);
  }
}

// A `done` of the service for calls whose response is empty.
template <typename Response>
RendezvousService::Done WithoutResponse(RpcHandler::Done<Response> done) {
  return [done = std::move(done)](const Reply& reply) { done(StatusOf(reply), Response()); };
}

}  // namespace

Ticket RpcHandler::Join(const pb::JoinRequest& request, Done<pb::JoinResponse> done) {
  const absl::StatusOr<JoinRequest> read = ReadJoin(request);
  if (!read.ok()) {
    done(read.status(), {});
    return 0;
  }
  return service_.Join(*read, [done = std::move(done)](const Reply& reply) {
    pb::JoinResponse response;
    if (reply.assignment.has_value()) {
      const Addresses& addresses = *reply.assignment->addresses;
      response.set_rank(reply.assignment->rank.value());
      response.set_epoch(reply.assignment->epoch.value());
      response.set_world_size(static_cast<int32_t>(addresses.size()));
      FillPage(addresses, 0, &response);
    }
    done(StatusOf(reply), response);
  });
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): all calls are alike.
Ticket RpcHandler::Peers(const pb::PeersRequest& request, Done<pb::PeersResponse> done) {
  const absl::StatusOr<MemberId> member = ReadMember(request.member());
  if (!member.ok()) {
    done(member.status(), {});
    return 0;
  }
  const absl::StatusOr<std::shared_ptr<const Addresses>> addresses = service_.AddressesFor(*member);
  if (!addresses.ok()) {
    done(addresses.status(), {});
    return 0;
  }
  const auto world_size = static_cast<int64_t>((*addresses)->size());
  if (request.first_rank() < 0 || request.first_rank() >= world_size) {
    done(absl::InvalidArgumentError(absl::StrCat("first rank ", request.first_rank(),
                                                 " is outside the world of ", world_size)),
         {});
    return 0;
  }
  pb::PeersResponse response;
  FillPage(**addresses, request.first_rank(), &response);
  done(absl::OkStatus(), response);
  return 0;
}

Ticket RpcHandler::Watch(const pb::WatchRequest& request, Done<pb::WatchResponse> done) {
  const absl::StatusOr<MemberId> member = ReadMember(request.member());
  if (!member.ok()) {
    done(member.status(), {});
    return 0;
  }
  return service_.Watch(*member, [done = std::move(done)](const Reply& reply) {
    pb::WatchResponse response;
    if (reply.status.ok() && reply.verdict.has_value()) {
      *response.mutable_verdict() = ToMessage(*reply.verdict);
    }
    done(StatusOf(reply), response);
  });
}

Ticket RpcHandler::Barrier(const pb::BarrierRequest& request, Done<pb::BarrierResponse> done) {
  const absl::StatusOr<BarrierRequest> read = ReadBarrier(request);
  if (!read.ok()) {
    done(read.status(), {});
    return 0;
  }
  return service_.Barrier(*read, WithoutResponse<pb::BarrierResponse>(std::move(done)));
}

Ticket RpcHandler::ReportFailure(const pb::ReportFailureRequest& request,
                                 Done<pb::ReportFailureResponse> done) {
  const absl::StatusOr<FailureReport> read = ReadFailureReport(request);
  if (!read.ok()) {
    done(read.status(), {});
    return 0;
  }
  return service_.ReportFailure(*read, [done = std::move(done)](const Reply& reply) {
    pb::ReportFailureResponse response;
    if (reply.status.ok() && reply.verdict.has_value()) {
      *response.mutable_verdict() = ToMessage(*reply.verdict);
    }
    done(StatusOf(reply), response);
  });
}

Ticket RpcHandler::Leave(const pb::LeaveRequest& request, Done<pb::LeaveResponse> done) {
  const absl::StatusOr<MemberId> member = ReadMember(request.member());
  if (!member.ok()) {
    done(member.status(), {});
    return 0;
  }
  return service_.Leave(*member, WithoutResponse<pb::LeaveResponse>(std::move(done)));
}

Ticket RpcHandler::Gathering(
    const pb::GatheringRequest& request,
    // NOLINTNEXTLINE(performance-unnecessary-value-param): all calls are alike.
    Done<pb::GatheringResponse> done) {
  pb::GatheringResponse response;
  absl::Status status = CheckJobId(request.job());
  if (status.ok()) {
    const absl::StatusOr<rz::Gathering> gathering = service_.GatheringOf(request.job());
    status = gathering.status();
    if (status.ok()) {
      response.set_world_size(static_cast<int32_t>(gathering->world_size));
      response.set_missing_count(static_cast<int32_t>(gathering->missing.size()));
      response.set_missing(FormatRanks(gathering->missing));
    }
  }
  done(status, response);
  return 0;
}

}  // namespace rz
