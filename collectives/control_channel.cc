// 1. BeginCall notes this rank's descriptor and posts a receive from each neighbour; EndCall sends
//    the descriptor to each, with a payload where there is one. Both directions are one stream a
//    neighbour, so the n-th message is that of call n.
// 2. OnCallReceived compares the n-th descriptor with this rank's own n-th. Messages may come out
// of
//    their order; `heard` grows over equal ones without a gap, and the first difference counts.
//    A call is over when it has been heard and this rank's own message has left: a rank that
//    returned may not move its transport again.
// 3. Different: the verdict goes to all ranks, each of which has had a receive for it posted since
//    the start. The first verdict a rank finds or gets is the one it keeps.
#include "collectives/control_channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/wire_tag.h"

namespace rz {
namespace {

// Tokens: {what 2 bits, link or rank 22 bits, call or outgoing message 40 bits}.
enum What : uint64_t { kCallReceive, kCallSend, kVerdictReceive, kVerdictSend };
constexpr int kWhatShift = 62;
constexpr int kWhoShift = 40;
constexpr uint64_t kWhoMask = (uint64_t{1} << 22) - 1;
constexpr uint64_t kWhichMask = (uint64_t{1} << kWhoShift) - 1;

uint64_t MakeToken(What what, uint64_t who, uint64_t which) {
  return uint64_t{what} << kWhatShift | who << kWhoShift | (which & kWhichMask);
}

}  // namespace

ControlChannel::ControlChannel(Transport* transport, Group group, uint32_t communicator_id,
                               ControlListener* listener)
    : transport_(transport),
      group_(std::move(group)),
      listener_(listener),
      call_tag_(CallTag(communicator_id)),
      verdict_tag_(VerdictTag(communicator_id)),
      window_(kInitialCallWindow),
      mine_(kInitialCallWindow) {
  const int world = group_.size();
  const int self = group_.rank().value();
  if (world == 1) return;
  links_ = std::vector<Link>(world == 2 ? 1 : 2);
  links_[0].peer = Rank((self + 1) % world);
  if (world > 2) links_[1].peer = Rank((self + world - 1) % world);
  for (Link& link : links_) {
    for (size_t i = 0; i < window_; ++i) {
      link.incoming.push_back(std::make_unique<Incoming>());
      AddOutgoing(link);
    }
  }
  PostVerdictReceives();
}

int ControlChannel::NeighbourIndex(Rank peer) const {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].peer == peer) return static_cast<int>(i);
  }
  return -1;
}

const ControlChannel::Link* ControlChannel::LinkOf(Rank peer) const {
  const int index = NeighbourIndex(peer);
  return index < 0 ? nullptr : &links_[index];
}

void ControlChannel::MakeRoom() {
  int64_t taken = last_;
  for (const Link& link : links_) taken = std::min(taken, link.taken);
  const size_t old_window = window_;
  while (static_cast<size_t>(last_ + 1 - taken) > window_) window_ *= 2;
  if (window_ == old_window) return;
  const auto old_index = [&](int64_t number) {
    return static_cast<size_t>(number) & (old_window - 1);
  };
  std::vector<CallDescriptor> mine(window_);
  for (int64_t n = taken + 1; n <= last_; ++n) mine[Index(n)] = mine_[old_index(n)];
  mine_ = std::move(mine);
  for (Link& link : links_) {
    std::vector<std::unique_ptr<Incoming>> incoming(window_);
    for (int64_t n = taken + 1; n <= last_; ++n) {
      incoming[Index(n)] = std::move(link.incoming[old_index(n)]);
    }
    for (auto& place : incoming) {
      if (place == nullptr) place = std::make_unique<Incoming>();
    }
    link.incoming = std::move(incoming);
  }
}

void ControlChannel::AddOutgoing(Link& link) {
  link.free_outgoing.reserve(link.outgoing.size() + 1);
  link.free_outgoing.push_back(static_cast<uint32_t>(link.outgoing.size()));
  link.outgoing.emplace_back();
}

void ControlChannel::BeginCall(const CallDescriptor& call) {
  MakeRoom();
  last_ = call.number;
  open_ = true;
  mine_[Index(last_)] = call;
  if (links_.empty()) agreed_ = last_;
  for (size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    PostCallReceive(i, last_);
    if (link.free_outgoing.empty()) AddOutgoing(link);
    link.open = link.free_outgoing.back();
    link.free_outgoing.pop_back();
    link.outgoing[link.open].call = call;
  }
}

void ControlChannel::EndCall() {
  open_ = false;
  for (size_t i = 0; i < links_.size(); ++i) PostCallSend(i);
}

void ControlChannel::PostCallReceive(size_t link_index, int64_t number) {
  Link& link = links_[link_index];
  Incoming& incoming = *link.incoming[Index(number)];
  incoming.state = Incoming::State::kFree;
  incoming.sent = false;
  if (!link.failure.ok()) return;
  auto* const bytes = reinterpret_cast<std::byte*>(&incoming.message);
  link.failure = transport_->PostRecv(
      group_.ToTransport(link.peer), call_tag_, absl::MakeSpan(bytes, sizeof(Message)), this,
      MakeToken(kCallReceive, link_index, static_cast<uint64_t>(number)));
  if (!link.failure.ok()) return;
  incoming.state = Incoming::State::kPosted;
  ++posted_;
}

// Who cannot be told is noticed by what does not come from there.
void ControlChannel::PostCallSend(size_t link_index) {
  Link& link = links_[link_index];
  const Message& message = link.outgoing[link.open];
  const size_t payload =
      message.call.payload_bytes == CallDescriptor::kNoPayload ? 0 : message.call.payload_bytes;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&message);
  const absl::Status status =
      transport_->PostSend(group_.ToTransport(link.peer), call_tag_,
                           absl::MakeConstSpan(bytes, sizeof(CallDescriptor) + payload), this,
                           MakeToken(kCallSend, link_index, link.open));
  if (!status.ok()) {
    OnCallSent(link, link.open);
    return;
  }
  ++posted_;
  bytes_sent_ += static_cast<int64_t>(sizeof(CallDescriptor));
}

bool ControlChannel::AttachPayload(int64_t number, Rank peer, absl::Span<const std::byte> data) {
  if (!open_ || number != last_ || data.size() > kMaxPayloadWithCall) return false;
  Link* const link = LinkOf(peer);
  if (link == nullptr) return false;
  Message& message = link->outgoing[link->open];
  if (message.call.payload_bytes != CallDescriptor::kNoPayload) return false;
  message.call.payload_bytes = static_cast<uint16_t>(data.size());
  if (!data.empty()) std::memcpy(message.payload.data(), data.data(), data.size());
  return true;
}

std::optional<ControlChannel::Heard> ControlChannel::HeardFrom(int64_t number, Rank peer) const {
  const Link* const link = LinkOf(peer);
  if (number <= link->taken) return Heard{};
  const Incoming& incoming = *link->incoming[Index(number)];
  switch (incoming.state) {
    case Incoming::State::kFree:
      return link->failure.ok() ? std::nullopt : std::optional<Heard>(Heard{});
    case Incoming::State::kPosted:
    case Incoming::State::kDifferent:
      return std::nullopt;
    case Incoming::State::kHeard:
      return Heard{};
    case Incoming::State::kPayload:
      break;
  }
  return Heard{true, absl::MakeConstSpan(incoming.message.payload.data(),
                                         incoming.message.call.payload_bytes)};
}

void ControlChannel::TakePayload(int64_t number, Rank peer) {
  Link& link = *LinkOf(peer);
  link.incoming[Index(number)]->state = Incoming::State::kHeard;
  Advance(link);
}

void ControlChannel::Advance(Link& link) {
  const auto state = [&](int64_t number) { return link.incoming[Index(number)]->state; };
  const auto heard = [&](int64_t number) {
    return link.incoming[Index(number)]->sent &&
           (state(number) == Incoming::State::kHeard || state(number) == Incoming::State::kPayload);
  };
  while (link.heard < last_ && heard(link.heard + 1)) ++link.heard;
  if (link.heard < last_ && state(link.heard + 1) == Incoming::State::kDifferent) {
    OnOtherCall(link, link.heard + 1);
  }
  while (link.taken < link.heard && state(link.taken + 1) == Incoming::State::kHeard) ++link.taken;
  agreed_ = link.heard;
  for (const Link& each : links_) agreed_ = std::min(agreed_, each.heard);
}

void ControlChannel::OnComplete(uint64_t token, const absl::Status& status, size_t bytes) {
  --posted_;
  const size_t who = token >> kWhoShift & kWhoMask;
  const uint64_t which = token & kWhichMask;
  switch (static_cast<What>(token >> kWhatShift)) {
    case kCallSend:
      OnCallSent(links_[who], static_cast<uint32_t>(which));
      return;
    case kVerdictSend:
      --verdict_sends_;
      return;
    case kCallReceive:
      if (!closed_) OnCallReceived(links_[who], static_cast<int64_t>(which), status, bytes);
      return;
    case kVerdictReceive:
      if (!closed_) OnVerdictReceived(Rank(static_cast<int32_t>(who)), status, bytes);
      return;
  }
}

void ControlChannel::OnCallSent(Link& link, uint32_t outgoing) {
  link.incoming[Index(link.outgoing[outgoing].call.number)]->sent = true;
  link.free_outgoing.push_back(outgoing);
  if (verdict_.ok()) Advance(link);
}

void ControlChannel::OnCallReceived(Link& link, int64_t number, const absl::Status& status,
                                    size_t bytes) {
  Incoming& incoming = *link.incoming[Index(number)];
  if (!status.ok() || !verdict_.ok()) {
    incoming.state = Incoming::State::kFree;
    link.failure.Update(status);
    if (verdict_.ok()) listener_->OnCallHeard(number, link.peer);
    return;
  }
  const CallDescriptor& theirs = incoming.message.call;
  const bool has_payload = theirs.payload_bytes != CallDescriptor::kNoPayload;
  const size_t expected = sizeof(CallDescriptor) + (has_payload ? theirs.payload_bytes : 0);
  if (bytes != expected || !SameCall(theirs, mine_[Index(number)])) [[unlikely]] {
    incoming.state = Incoming::State::kDifferent;
    incoming.bytes = bytes;
    Advance(link);
    return;
  }
  incoming.state = has_payload ? Incoming::State::kPayload : Incoming::State::kHeard;
  Advance(link);
  if (verdict_.ok()) listener_->OnCallHeard(number, link.peer);
}

void ControlChannel::OnOtherCall(const Link& link, int64_t number) {
  const Message& message = link.incoming[Index(number)]->message;
  const size_t bytes = link.incoming[Index(number)]->bytes;
  const absl::StatusOr<CallDescriptor> theirs = DecodeCall(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(&message.call), std::min(bytes, sizeof(CallDescriptor))));
  const CallDescriptor& mine = mine_[Index(number)];
  if (!theirs.ok() || SameCall(*theirs, mine)) {
    SetVerdict(absl::FailedPreconditionError(absl::StrCat(
        "rank ", group_.rank().value(), ", operation ", number, ": what rank ", link.peer.value(),
        " sent is ",
        theirs.ok() ? absl::StrCat("a message of ", bytes, " bytes that says another length")
                    : std::string(theirs.status().message()))));
    return;
  }
  Verdict verdict;
  const bool mine_first = group_.rank() < link.peer;
  verdict.ranks[mine_first ? 0 : 1] = group_.rank().value();
  verdict.ranks[mine_first ? 1 : 0] = link.peer.value();
  verdict.calls[mine_first ? 0 : 1] = mine;
  verdict.calls[mine_first ? 1 : 0] = *theirs;
  SendVerdict(verdict);
  SetVerdict(absl::FailedPreconditionError(DescribeMismatch(
      Rank(verdict.ranks[0]), verdict.calls[0], Rank(verdict.ranks[1]), verdict.calls[1])));
}

void ControlChannel::PostVerdictReceives() {
  const int world = group_.size();
  incoming_verdicts_.resize(world);
  for (int r = 0; r < world; ++r) {
    if (Rank(r) == group_.rank()) continue;
    auto* const bytes = reinterpret_cast<std::byte*>(&incoming_verdicts_[r]);
    const absl::Status status = transport_->PostRecv(
        group_.ToTransport(Rank(r)), verdict_tag_, absl::MakeSpan(bytes, sizeof(Verdict)), this,
        MakeToken(kVerdictReceive, static_cast<uint64_t>(r), 0));
    if (status.ok()) ++posted_;
  }
}

void ControlChannel::SendVerdict(const Verdict& verdict) {
  outgoing_verdict_ = verdict;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&outgoing_verdict_);
  for (int r = 0; r < group_.size(); ++r) {
    if (Rank(r) == group_.rank()) continue;
    const absl::Status status = transport_->PostSyncSend(
        group_.ToTransport(Rank(r)), verdict_tag_, absl::MakeConstSpan(bytes, sizeof(Verdict)),
        this, MakeToken(kVerdictSend, static_cast<uint64_t>(r), 0));
    if (!status.ok()) continue;
    ++posted_;
    ++verdict_sends_;
    bytes_sent_ += static_cast<int64_t>(sizeof(Verdict));
  }
}

void ControlChannel::OnVerdictReceived(Rank from, const absl::Status& status, size_t bytes) {
  if (!status.ok() || !verdict_.ok()) return;
  const Verdict& verdict = incoming_verdicts_[from.value()];
  const auto known = [this](int32_t rank) { return rank >= 0 && rank < group_.size(); };
  const auto decode = [](const CallDescriptor& call) {
    return DecodeCall(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&call), sizeof call));
  };
  const absl::StatusOr<CallDescriptor> first = decode(verdict.calls[0]);
  const absl::StatusOr<CallDescriptor> second = decode(verdict.calls[1]);
  if (bytes != sizeof(Verdict) || verdict.magic != Verdict::kMagic || !known(verdict.ranks[0]) ||
      !known(verdict.ranks[1]) || !first.ok() || !second.ok()) {
    SetVerdict(absl::FailedPreconditionError(
        absl::StrCat("rank ", group_.rank().value(), ": rank ", from.value(),
                     " says that the ranks do not make the same calls, in words this rank does not "
                     "know: run one build on all ranks")));
    return;
  }
  SetVerdict(absl::FailedPreconditionError(
      DescribeMismatch(Rank(verdict.ranks[0]), *first, Rank(verdict.ranks[1]), *second)));
}

void ControlChannel::SetVerdict(const absl::Status& verdict) {
  verdict_ = verdict;
  listener_->OnVerdict();
}

absl::Status ControlChannel::FailureBefore(int64_t number) const {
  for (const Link& link : links_) {
    if (link.failure.ok() || link.heard >= number - 1) continue;
    return absl::Status(link.failure.code(),
                        absl::StrCat("rank ", group_.rank().value(), ", operation ", link.heard + 1,
                                     ": rank ", link.peer.value(), " has not made this call: ",
                                     absl::string_view(link.failure.message())));
  }
  return absl::OkStatus();
}

bool ControlChannel::lost_a_neighbour() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const Link& link) { return !link.failure.ok(); });
}

bool ControlChannel::MayEndAlone(int64_t number) const {
  const CallDescriptor& call = mine_[Index(number)];
  return call.count == 0 && call.counts_hash == 0 && call.dtype != CallDescriptor::kNotApplicable;
}

std::string ControlChannel::DescribeNeighbours() const {
  std::string text;
  for (const Link& link : links_) {
    const int64_t next = link.heard + 1;
    absl::StrAppend(&text, text.empty() ? "" : ", ", "rank ", link.peer.value());
    if (next > last_) {
      absl::StrAppend(&text, " has made the same calls");
    } else if (link.incoming[Index(next)]->state == Incoming::State::kPosted) {
      absl::StrAppend(&text, " has not called operation ", next);
    } else {
      absl::StrAppend(&text, " has not been told of operation ", next, " yet");
    }
  }
  return text;
}

void ControlChannel::Close() {
  if (closed_) return;
  closed_ = true;
  transport_->CancelReceives(this);
}

}  // namespace rz
