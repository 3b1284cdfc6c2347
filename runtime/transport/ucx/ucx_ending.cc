// How peers go, and how this rank goes.
//
// A peer is lost:
//   1. UCX reports a broken endpoint or fails an operation: the peer is kTroubled.
//   2. What had arrived before is taken in first: a goodbye may be among it. When UCX has nothing
//      more to do, the peer is kDead.
//   3. Its receives are cancelled and its endpoint is closed by force, which completes its sends.
//   4. UCX does not give back every large message that was half moved. When the close is complete
//      and nothing more arrives, such an operation is abandoned: its sink is told, and the record
//      stays with UCX.
//
// This rank leaves (destructor):
//   1. kLeaving goes to every connected peer. It travels behind all messages, so a peer that reads
//      it has them all, and answers kReceived. The peer closes its endpoint last: to keepalives
//      that meet a closed endpoint UCX 1.13 answers from a new one, and may end the process over
//      it.
//   2. With all answers here (or leave_timeout over) nothing can be lost with the connections: they
//      are closed by force, which never waits for a peer.
//   A peer to which sends are still under way is told kAborted instead.
//
// UCX connects lazily, by a handshake of its own, and Debian's build ends the process when a worker
// is destroyed over a half-finished one. So each side sends kHello at Connect, which makes UCX
// finish its handshake; no endpoint is closed before the peer's kHello has come (or waiting for it
// is over: then the worker is left open for good).
//
// Abort: every connected peer is told kAborted, and leaves the closing to this rank; when that is
// sent, or some seconds are over, everything ends as if all peers were lost, with the cause of the
// abort.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/transport/ucx/ucx_errors.h"
#include "runtime/transport/ucx/ucx_transport_impl.h"

namespace rz {
namespace {

// Rounds in which other peers may keep UCX busy before a troubled one is given up all the same.
constexpr int kMostTroubledRounds = 10000;

// The contract's limit for an abort, and how much of it may go into handshakes and into telling the
// peers. Both take milliseconds where the peers run; a peer that the machine has no time for is
// given some, since one that is not told hears of the abort from the rendezvous alone.
constexpr absl::Duration kAbortLimit = absl::Seconds(5);
constexpr absl::Duration kAbortTellingLimit = absl::Seconds(4);

// After a close UCX completes what it can in the next few rounds, ...
constexpr int kQuietRoundsOfAbort = 1000;
// ... and a peer on shared memory may need a moment more to stop sending.
constexpr absl::Duration kPatienceWithUcx = absl::Milliseconds(100);

// A peer that aborts closes its connections at once. Where this rank closed first, with a message
// half sent, UCX 1.13 may use the connection after it has freed it.
constexpr absl::Duration kPeerClosesFirst = absl::Seconds(1);

// Closes by force take about a millisecond.
constexpr absl::Duration kCloseLimit = absl::Seconds(10);

}  // namespace

void UcxTransport::OnEndpointError(void* peer, ucp_ep_h endpoint, ucs_status_t status) {
  auto& broken = *static_cast<Peer*>(peer);
  if (broken.state == Peer::State::kConnected) {
    broken.state = Peer::State::kTroubled;
  }
  broken.broken_with = status;
  broken.transport->NeedsAttention(broken);
}

ucs_status_t UcxTransport::OnControlMessage(void* transport, const void* header,
                                            size_t header_bytes, void* data, size_t data_bytes,
                                            const ucp_am_recv_param_t* param) {
  auto& self = *static_cast<UcxTransport*>(transport);
  ControlMessage message;
  if (header_bytes != sizeof message) return UCS_OK;
  std::memcpy(&message, header, sizeof message);
  if (message.rank < 0 || message.rank >= self.world_size_ || message.rank == self.self_.value() ||
      message.epoch != static_cast<uint8_t>(self.epoch_.value())) {
    return UCS_OK;
  }
  Peer& peer = self.peers_[message.rank];
  if (message.kind == ControlMessage::kHello) {
    peer.met = true;
  } else if (message.kind == ControlMessage::kDoorbell) {
    self.wake_.store(true, std::memory_order_relaxed);
  } else if (message.kind == ControlMessage::kReceived) {
    peer.goodbye_answered = true;
  } else if (!peer.gone() && message.kind == ControlMessage::kLeaving) {
    peer.state = Peer::State::kLeft;
    peer.cause = PeerLeftError(self.self_, peer.rank, self.epoch_);
    self.NeedsAttention(peer);
  } else if (!peer.gone() && message.kind == ControlMessage::kAborted) {
    peer.state = Peer::State::kDead;
    peer.cause = PeerAbortedError(self.self_, peer.rank, self.epoch_);
    peer.close_after = Deadline::After(*Clock::Steady(), kPeerClosesFirst);
    self.NeedsAttention(peer);
  }
  return UCS_OK;
}

void UcxTransport::NeedsAttention(Peer& peer) {
  if (peer.needs_attention || peer.endpoint == nullptr) return;
  peer.needs_attention = true;
  attention_.push_back(peer.rank.value());
}

void UcxTransport::AttendToPeers(bool quiet) {
  const bool patient = !quiet && ++troubled_rounds_ < kMostTroubledRounds;
  // Retire calls back into NeedsAttention, which ignores peers that are in the list.
  for (size_t i = 0; i < attention_.size(); ++i) {
    Peer& peer = peers_[attention_[i]];
    if (peer.state == Peer::State::kTroubled) {
      if (patient) continue;
      peer.state = Peer::State::kDead;
      peer.cause = PeerLostError(self_, peer.rank, epoch_, ucs_status_string(peer.broken_with));
    }
    Retire(peer);
  }
  std::erase_if(attention_, [this](int32_t rank) {
    if (peers_[rank].endpoint != nullptr && !MayStayOpen(peers_[rank])) return false;
    peers_[rank].needs_attention = false;
    return true;
  });
  if (attention_.empty()) troubled_rounds_ = 0;
}

void UcxTransport::Retire(Peer& peer) {
  if (peer.endpoint == nullptr) return;
  if (peer.state == Peer::State::kLeft && !peer.told) {
    SendControl(peer, ControlMessage::kReceived);
    peer.told = true;
  }
  for (UcxOperation *each = peer.under_way.front(), *next; each != nullptr; each = next) {
    next = peer.under_way.After(each);
    if (each->kind == UcxOperation::Kind::kReceive) {
      ucp_request_cancel(worker_->handle(), each->request);
    }
  }
  if (MayClose(peer)) CloseEndpoint(peer);
}

bool UcxTransport::MayStayOpen(const Peer& peer) {
  return peer.state == Peer::State::kLeft && peer.broken_with == UCS_OK && peer.under_way.empty();
}

bool UcxTransport::MayClose(const Peer& peer) const {
  if (peer.broken_with != UCS_OK) return true;
  if (MayStayOpen(peer)) return false;
  if (peer.close_after.at() != absl::InfiniteDuration()) {
    return peer.close_after.HasPassed(*Clock::Steady());
  }
  if (peer.met && peer.control_under_way == 0) return true;
  return abort_deadline_.Remaining(*Clock::Steady()) < kAbortLimit - kAbortTellingLimit;
}

void UcxTransport::CloseEndpoint(Peer& peer) {
  if (!peer.met) {
    Log(LogLevel::kInfo, "rank ", peer.rank.value(),
        " went before UCX's handshake with it was over; the UCX worker of rank ", self_.value(),
        " is left open until the process ends");
    leak_worker_ = true;
  }
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t close = ucp_ep_close_nbx(peer.endpoint, &param);
  peer.endpoint = nullptr;
  peer.abandon_after = Deadline::After(*Clock::Steady(), kPatienceWithUcx);
  if (UCS_PTR_IS_PTR(close)) {
    peer.close_request = close;
    ++closes_under_way_;
  }
  has_leftovers_ = true;
}

void UcxTransport::SendControl(Peer& peer, ControlMessage::Kind kind) {
  ControlMessage& message = peer.outgoing[kind];
  message = {kind, static_cast<uint8_t>(epoch_.value()), 0, self_.value()};
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  // A message that can be replied to needs the finished handshake.
  param.flags = kind == ControlMessage::kHello ? UCP_AM_SEND_FLAG_REPLY : 0;
  param.cb.send = [](void* request, ucs_status_t, void* peer) {
    ucp_request_free(request);
    --static_cast<Peer*>(peer)->control_under_way;
  };
  param.user_data = &peer;
  const ucs_status_ptr_t request = ucp_am_send_nbx(peer.endpoint, ControlMessage::kActiveMessageId,
                                                   &message, sizeof message, nullptr, 0, &param);
  if (UCS_PTR_IS_PTR(request)) ++peer.control_under_way;
}

void UcxTransport::ReapCloses(bool quiet) {
  bool leftovers = false;
  for (int r = 0; r < world_size_; ++r) {
    Peer& peer = peers_[r];
    if (peer.close_request != nullptr) {
      if (ucp_request_check_status(peer.close_request) == UCS_INPROGRESS) continue;
      ucp_request_free(peer.close_request);
      peer.close_request = nullptr;
      --closes_under_way_;
    }
    if (peer.endpoint != nullptr || peer.under_way.empty()) continue;
    const bool stuck = quiet && peer.abandon_after.HasPassed(*Clock::Steady());
    if (stuck && abort_state_ == AbortState::kNone) {
      AbandonOperations(peer);
    } else {
      leftovers = true;
    }
  }
  has_leftovers_ = leftovers;
}

void UcxTransport::AbandonOperations(Peer& peer) {
  while (UcxOperation* stuck = peer.under_way.PopFront()) {
    UcxOperation* told =
        NewOperation(stuck->kind, stuck->peer, stuck->tag, stuck->sink, stuck->token);
    told->moved_bytes = 0;
    told->status = peer.cause;
    ready_.PushBack(told);
    stuck->abandoned = true;
  }
}

void UcxTransport::BeginAbort() {
  abort_state_ = AbortState::kUnderWay;
  abort_deadline_ = Deadline::After(*Clock::Steady(), kAbortLimit);
  const absl::Status cause = abort_cause();
  self_link_.FailAll(cause, ready_);
  if (!connected_) {
    abort_state_ = AbortState::kDone;
    return;
  }
  for (int r = 0; r < world_size_; ++r) {
    Peer& peer = peers_[r];
    if (peer.state == Peer::State::kConnected && peer.endpoint != nullptr) {
      SendControl(peer, ControlMessage::kAborted);
    }
    peer.state = Peer::State::kDead;
    peer.cause = cause;
    NeedsAttention(peer);
  }
}

void UcxTransport::FinishAbort(bool quiet) {
  const bool closed = closes_under_way_ == 0 && attention_.empty();
  if (closed && quiet) ++abort_quiet_rounds_;
  const bool stuck = abort_quiet_rounds_ >= kQuietRoundsOfAbort;
  const bool complete = closed && (!has_leftovers_ || stuck);
  if (!complete && !abort_deadline_.HasPassed(*Clock::Steady())) return;
  for (int r = 0; r < world_size_; ++r) AbandonOperations(peers_[r]);
  // UCX is not moved any more: peers that have not heard of the abort may still be sending into
  // memory that belongs to the caller now.
  abort_state_ = AbortState::kDone;
  leak_worker_ |= !closed;
}

void UcxTransport::SayGoodbye() {
  for (int r = 0; r < world_size_; ++r) {
    Peer& peer = peers_[r];
    if (peer.endpoint == nullptr || peer.state != Peer::State::kConnected) continue;
    bool sending = false;
    for (UcxOperation* each = peer.under_way.front(); each != nullptr;
         each = peer.under_way.After(each)) {
      sending |= each->kind == UcxOperation::Kind::kSend;
    }
    SendControl(peer, sending ? ControlMessage::kAborted : ControlMessage::kLeaving);
    peer.goodbye_answered = sending;
  }
}

void UcxTransport::TakeLeave() {
  if (abort_requested_.load(std::memory_order_acquire)) {
    if (abort_state_ == AbortState::kNone) BeginAbort();
    while (abort_state_ == AbortState::kUnderWay) {
      Move();
      sched_yield();
    }
    return;
  }
  SayGoodbye();
  const Deadline deadline = Deadline::After(*Clock::Steady(), options_.leave_timeout);
  while (!GoodbyeDone() && !deadline.HasPassed(*Clock::Steady())) {
    Move();
    while (UcxOperation* dropped = ready_.PopFront()) pool_.Return(dropped);
    WaitForEvent(deadline);
  }
}

bool UcxTransport::GoodbyeDone() const {
  for (int r = 0; r < world_size_; ++r) {
    if (peers_[r].endpoint == nullptr) continue;
    const bool left = peers_[r].state == Peer::State::kLeft;
    if (!(peers_[r].goodbye_answered || left) || !peers_[r].met) return false;
    if (peers_[r].control_under_way > 0) return false;
  }
  return true;
}

UcxTransport::~UcxTransport() {
  if (peers_ != nullptr) {
    if (connected_) TakeLeave();
    for (int r = 0; r < world_size_; ++r) {
      if (peers_[r].endpoint == nullptr) continue;
      peers_[r].state = Peer::State::kDead;
      CloseEndpoint(peers_[r]);
    }
    const Deadline deadline = Deadline::After(*Clock::Steady(), kCloseLimit);
    for (ReapCloses(false); closes_under_way_ > 0 && !leak_worker_; ReapCloses(false)) {
      if (deadline.HasPassed(*Clock::Steady())) {
        Log(LogLevel::kWarning, "UCX did not close ", closes_under_way_,
            " connections in time; its worker is left open until the process ends");
        leak_worker_ = true;
        break;
      }
      if (ucp_worker_progress(worker_->handle()) == 0) sched_yield();
    }
  }
  // What a communicator had to leave to its peers is not given back any more.
  if (leak_worker_ || own_regions_ > 0) worker_->Leak();
  // UCX may call back for what it still holds, so it goes before the records.
  worker_.reset();
  close(wake_fd_);
}

}  // namespace rz
