// The life of an operation:
//   1. A Post takes a record from the pool and hands it to UCX (or to SelfLink). While UCX has it,
//      the record is in its peer's `under_way` list.
//   2. UCX calls back with the record, or says at once that it is done. Either way the record goes
//      to `ready_`; no sink is called yet.
//   3. Progress moves UCX, deals with peers that went (ucx_ending.cc), and then tells the sinks of
//      what `ready_` held by then. The records go back to the pool first, so that sinks may post.
#include "runtime/transport/ucx/ucx_transport.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/transport/ucx/ucx_address.h"
#include "runtime/transport/ucx/ucx_errors.h"
#include "runtime/transport/ucx/ucx_shared_memory.h"
#include "runtime/transport/ucx/ucx_tag.h"
#include "runtime/transport/ucx/ucx_transport_impl.h"

namespace rz {
namespace {

// One Progress moves UCX at most this often before it looks at its completions.
constexpr int kPumpsPerProgress = 16;

// A send of this many bytes completes when the receive that it goes to has been posted, so that a
// peer that is late holds no more of a sender's bytes than the sender has sends under way.
constexpr size_t kAcknowledged = size_t{64} << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> CreateUcxTransport(const UcxOptions& options) {
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, UcxWorker::Create(options));
  const int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("eventfd: ", std::strerror(errno)));
  }
  return std::make_unique<UcxTransport>(options, std::move(worker), wake_fd);
}

UcxTransport::UcxTransport(const UcxOptions& options, std::unique_ptr<UcxWorker> worker,
                           int wake_fd)
    : options_(options), worker_(std::move(worker)), wake_fd_(wake_fd) {}

std::string UcxTransport::LocalAddress() const { return WrapUcxAddress(worker_->address()); }

absl::Status UcxTransport::Connect(Rank self, absl::Span<const std::string> addresses,
                                   Epoch epoch) {
  if (abort_requested_.load(std::memory_order_acquire)) return abort_cause();
  if (peers_ != nullptr) return absl::FailedPreconditionError("Connect was called before");
  const int world_size = static_cast<int>(addresses.size());
  if (self.value() < 0 || self.value() >= world_size || world_size > kUcxMaxWorldSize) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", self.value(), " in a world of ",
                                                   addresses.size(), ", which may have 1 to ",
                                                   kUcxMaxWorldSize, " ranks"));
  }
  if (addresses[self.value()] != LocalAddress()) {
    return absl::InvalidArgumentError(absl::StrCat("the address given for rank ", self.value(),
                                                   " is not the one of this worker"));
  }
  self_ = self;
  world_size_ = world_size;
  epoch_ = epoch;
  peers_ = std::make_unique<Peer[]>(world_size);
  attention_.reserve(world_size);

  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = ControlMessage::kActiveMessageId;
  handler.cb = OnControlMessage;
  handler.arg = this;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(worker_->handle(), &handler);
  if (status != UCS_OK) {
    return absl::UnavailableError(
        absl::StrCat("UCX takes no active messages: ", ucs_status_string(status)));
  }

  for (int r = 0; r < world_size; ++r) {
    Peer& peer = peers_[r];
    peer.transport = this;
    peer.rank = Rank(r);
    if (r != self.value()) RZ_RETURN_IF_ERROR(ConnectTo(peer, addresses[r]));
  }
  connected_ = true;
  lanes_ = Lanes();
  return absl::OkStatus();
}

absl::Status UcxTransport::ConnectTo(Peer& peer, const std::string& address) {
  absl::StatusOr<std::string_view> unwrapped = UnwrapUcxAddress(address);
  if (!unwrapped.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", peer.rank.value(), ": ", unwrapped.status().message()));
  }
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(unwrapped->data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = OnEndpointError;
  params.err_handler.arg = &peer;
  const ucs_status_t status = ucp_ep_create(worker_->handle(), &params, &peer.endpoint);
  if (status == UCS_OK) {
    SendControl(peer, ControlMessage::kHello);
    return absl::OkStatus();
  }
  peer.endpoint = nullptr;
  return absl::UnavailableError(absl::StrCat(
      "rank ", peer.rank.value(), " cannot be reached from rank ", self_.value(), ": ",
      ucs_status_string(status),
      "; do both run with the same transports? Where a host has a network device that others do "
      "not reach, such as a container runtime's bridge, set UCX_NET_DEVICES to the one to use",
      WhyNoTcp()));
}

absl::Status UcxTransport::CheckPost(Rank peer, Tag tag) const {
  if (abort_requested_.load(std::memory_order_acquire)) [[unlikely]]
    return abort_cause();
  if (!connected_) [[unlikely]]
    return absl::FailedPreconditionError("the transport is not connected: call Connect first");
  if (peer.value() < 0 || peer.value() >= world_size_) [[unlikely]] {
    return absl::InvalidArgumentError(
        absl::StrCat("peer ", peer.value(), " in a world of ", world_size_));
  }
  if (tag > kMaxTag) [[unlikely]] {
    return absl::InvalidArgumentError(
        absl::StrCat("tag 0x", absl::Hex(tag), " needs more than ", kTagBits, " bits"));
  }
  return absl::OkStatus();
}

UcxOperation* UcxTransport::NewOperation(UcxOperation::Kind kind, Rank peer, Tag tag,
                                         CompletionSink* sink, uint64_t token) {
  UcxOperation* operation = pool_.Take();
  operation->transport = this;
  operation->kind = kind;
  operation->peer = peer;
  operation->tag = tag;
  operation->sink = sink;
  operation->token = token;
  return operation;
}

absl::Status UcxTransport::PostSend(Rank peer, Tag tag, absl::Span<const std::byte> data,
                                    CompletionSink* sink, uint64_t token) {
  const auto send = data.size() < kAcknowledged ? ucp_tag_send_nbx : ucp_tag_send_sync_nbx;
  return Send(send, peer, tag, data, sink, token);
}

absl::Status UcxTransport::PostSyncSend(Rank peer, Tag tag, absl::Span<const std::byte> data,
                                        CompletionSink* sink, uint64_t token) {
  return Send(ucp_tag_send_sync_nbx, peer, tag, data, sink, token);
}

absl::Status UcxTransport::Send(decltype(&ucp_tag_send_nbx) send, Rank peer, Tag tag,
                                absl::Span<const std::byte> data, CompletionSink* sink,
                                uint64_t token) {
  RZ_RETURN_IF_ERROR(CheckPost(peer, tag));
  Peer& to = peers_[peer.value()];
  if (to.gone()) [[unlikely]]
    return to.cause;
  UcxOperation* operation = NewOperation(UcxOperation::Kind::kSend, peer, tag, sink, token);
  operation->data = const_cast<std::byte*>(data.data());
  operation->size = data.size();
  if (peer == self_) {
    self_link_.Post(operation, ready_);
    return absl::OkStatus();
  }
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = OnSendDone;
  param.user_data = operation;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  to.under_way.PushBack(operation);
  Started(operation,
          send(to.endpoint, data.data(), data.size(), MakeUcxTag(epoch_, self_, tag), &param));
  return absl::OkStatus();
}

absl::Status UcxTransport::PostRecv(Rank peer, Tag tag, absl::Span<std::byte> buffer,
                                    CompletionSink* sink, uint64_t token) {
  RZ_RETURN_IF_ERROR(CheckPost(peer, tag));
  Peer& from = peers_[peer.value()];
  if (from.gone() && !HasArrived(from, tag)) [[unlikely]]
    return from.cause;
  UcxOperation* operation = NewOperation(UcxOperation::Kind::kReceive, peer, tag, sink, token);
  operation->data = buffer.data();
  operation->size = buffer.size();
  if (peer == self_) {
    self_link_.Post(operation, ready_);
    return absl::OkStatus();
  }
  ucp_request_param_t param = {};
  // UCX 1.13 does not say how long a message was that completes a receive at once; with this flag
  // it calls back from within the call.
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv = OnReceiveDone;
  param.user_data = operation;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  from.under_way.PushBack(operation);
  Started(operation, ucp_tag_recv_nbx(worker_->handle(), buffer.data(), buffer.size(),
                                      MakeUcxTag(epoch_, peer, tag), kUcxTagMask, &param));
  return absl::OkStatus();
}

void UcxTransport::CancelReceives(CompletionSink* sink) {
  self_link_.CancelReceives(sink, absl::CancelledError("taken back"), ready_);
  for (int r = 0; r < world_size_; ++r) {
    Peer& peer = peers_[r];
    for (UcxOperation *each = peer.under_way.front(), *next; each != nullptr; each = next) {
      next = peer.under_way.After(each);
      if (each->kind != UcxOperation::Kind::kReceive || each->sink != sink) continue;
      each->cancelled = true;
      ucp_request_cancel(worker_->handle(), each->request);
    }
  }
}

bool UcxTransport::HasArrived(const Peer& peer, Tag tag) const {
  if (peer.state != Peer::State::kLeft) return false;
  ucp_tag_recv_info_t info;
  return ucp_tag_probe_nb(worker_->handle(), MakeUcxTag(epoch_, peer.rank, tag), kUcxTagMask,
                          /*remove=*/0, &info) != nullptr;
}

void UcxTransport::Started(UcxOperation* operation, ucs_status_ptr_t request) {
  if (!UCS_PTR_IS_PTR(request)) {
    Finish(operation, UCS_PTR_STATUS(request), operation->size);
  } else if (!operation->finished) {
    operation->request = request;
  }
}

void UcxTransport::OnSendDone(void* request, ucs_status_t status, void* operation) {
  auto* done = static_cast<UcxOperation*>(operation);
  ucp_request_free(request);
  done->transport->Finish(done, status, done->size);
}

void UcxTransport::OnReceiveDone(void* request, ucs_status_t status,
                                 const ucp_tag_recv_info_t* info, void* operation) {
  auto* done = static_cast<UcxOperation*>(operation);
  const size_t bytes = status == UCS_OK ? info->length : 0;
  ucp_request_free(request);
  done->transport->Finish(done, status, bytes);
}

void UcxTransport::Finish(UcxOperation* operation, ucs_status_t status, size_t bytes) {
  if (operation->abandoned) [[unlikely]] {
    pool_.Return(operation);
    return;
  }
  OperationList::Remove(operation);
  ready_.PushBack(operation);
  operation->finished = true;
  operation->request = nullptr;
  operation->moved_bytes = bytes;
  if (status == UCS_OK) [[likely]]
    return;
  operation->moved_bytes = 0;
  if (status == UCS_ERR_MESSAGE_TRUNCATED) {
    operation->status = TruncatedError(self_, operation->peer, operation->tag, operation->size);
    return;
  }
  if (status == UCS_ERR_CANCELED && operation->cancelled) {
    operation->status = absl::CancelledError("taken back");
    return;
  }
  Peer& peer = peers_[operation->peer.value()];
  if (!peer.gone()) {
    OnEndpointError(&peer, peer.endpoint, status);
    operation->status = PeerLostError(self_, peer.rank, epoch_, ucs_status_string(status));
  } else {
    operation->status = peer.cause;
  }
}

int UcxTransport::Progress() {
  if (abort_requested_.load(std::memory_order_acquire) && abort_state_ == AbortState::kNone)
      [[unlikely]] {
    BeginAbort();
  }
  Move();
  return Deliver();
}

void UcxTransport::Move() {
  if (!connected_ || abort_state_ == AbortState::kDone) return;
  const bool quiet = Pump();
  if (!attention_.empty()) [[unlikely]]
    AttendToPeers(quiet);
  if (closes_under_way_ > 0 || has_leftovers_) [[unlikely]]
    ReapCloses(quiet);
  if (abort_state_ == AbortState::kUnderWay) [[unlikely]]
    FinishAbort(quiet);
}

bool UcxTransport::Pump() {
  // After the peers were told of an abort, no more is sent than has to be.
  const int pumps = abort_state_ == AbortState::kNone ? kPumpsPerProgress : 1;
  for (int i = 0; i < pumps; ++i) {
    if (ucp_worker_progress(worker_->handle()) == 0) return true;
    if (!ready_.empty()) return false;
  }
  return false;
}

int UcxTransport::Deliver() {
  if (ready_.empty()) return 0;
  OperationList batch;
  batch.Append(ready_);
  int delivered = 0;
  while (UcxOperation* operation = batch.PopFront()) {
    CompletionSink* const sink = operation->sink;
    const uint64_t token = operation->token;
    const size_t bytes = operation->moved_bytes;
    const absl::Status status = std::move(operation->status);
    pool_.Return(operation);
    sink->OnComplete(token, status, bytes);
    ++delivered;
  }
  return delivered;
}

absl::StatusOr<std::unique_ptr<SharedMemory>> UcxTransport::AllocateShared(size_t bytes) {
  return AllocateUcxShared(worker_->context(), bytes, &own_regions_);
}

absl::StatusOr<std::unique_ptr<SharedMemory>> UcxTransport::MapShared(Rank peer,
                                                                      std::string_view key) {
  if (peer.value() < 0 || peer.value() >= world_size_ || peer == self_) {
    return absl::InvalidArgumentError(absl::StrCat("peer ", peer.value(), " of rank ",
                                                   self_.value(), " in a world of ", world_size_));
  }
  if (peers_[peer.value()].endpoint == nullptr) {
    return absl::UnavailableError("its memory cannot be reached: the connection is closed");
  }
  return MapUcxShared(key);
}

void UcxTransport::RingDoorbell(Rank peer) {
  if (!CheckPost(peer, 0).ok() || peer == self_) return;
  Peer& to = peers_[peer.value()];
  if (to.state == Peer::State::kConnected) SendControl(to, ControlMessage::kDoorbell);
}

absl::Status UcxTransport::abort_cause() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return abort_cause_;
}

void UcxTransport::Abort(absl::Status cause) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (abort_cause_.ok()) {
      abort_cause_ = cause.ok() ? absl::CancelledError("the transport was aborted") : cause;
    }
  }
  abort_requested_.store(true, std::memory_order_release);
  Wake();
}

std::string UcxTransport::Lanes() const {
  std::set<std::string> names;
  for (int r = 0; r < world_size_; ++r) {
    if (peers_[r].endpoint == nullptr) continue;
    char* text = nullptr;
    size_t size = 0;
    FILE* stream = open_memstream(&text, &size);
    if (stream == nullptr) continue;
    ucp_ep_print_info(peers_[r].endpoint, stream);
    fclose(stream);
    // "#   lane[0]:  1:tcp/lo.0 md[1] ...": the name stands between the second colon and the slash.
    const std::string info(text, size);
    free(text);
    for (size_t at = info.find("lane["); at != std::string::npos; at = info.find("lane[", at + 1)) {
      const size_t colon = info.find(':', info.find(':', at) + 1);
      const size_t slash = info.find('/', at);
      if (colon < slash && slash != std::string::npos) {
        names.insert(info.substr(colon + 1, slash - colon - 1));
      }
    }
  }
  if (names.empty() && world_size_ == 1) return "self";
  return absl::StrJoin(names, ", ");
}

std::string UcxTransport::Description() const {
  const std::string now = connected_ ? Lanes() : "not connected";
  return absl::StrCat("ucx ", ucp_get_version_string(), ": ", now.empty() ? lanes_ : now);
}

}  // namespace rz
