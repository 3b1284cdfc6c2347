// 1. Both sides post two transfers a message: the header, and, where their own count is not zero,
//    the data, under tags that carry the pair's sequence number.
// 2. When a header has come it is compared with the receive. On a difference the communicator
//    fails; whether data comes, and how much, no longer matters. Data of another length than
//    expected, which may overtake its header, waits for it.
// 3. A message whose transfers are complete is done.
#include "collectives/point_to_point.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/tags.h"
#include "runtime/base/status_macros.h"

namespace rz {

PointToPoint::PointToPoint(Transport* transport, Group group, uint32_t communicator_id)
    : transport_(transport), group_(std::move(group)), communicator_id_(communicator_id) {}

absl::StatusOr<int64_t> PointToPoint::Send(const void* buffer, int64_t count, DType dtype,
                                           Rank peer) {
  return Start(true, const_cast<void*>(buffer), count, dtype, peer);
}

absl::StatusOr<int64_t> PointToPoint::Receive(void* buffer, int64_t count, DType dtype, Rank peer) {
  return Start(false, buffer, count, dtype, peer);
}

absl::StatusOr<int64_t> PointToPoint::Start(bool is_send, void* buffer, int64_t count, DType dtype,
                                            Rank peer) {
  if (sent_.empty()) {
    sent_.resize(static_cast<size_t>(group_.size()));
    received_.resize(static_cast<size_t>(group_.size()));
  }
  int index = static_cast<int>(messages_.size());
  if (free_.empty()) {
    messages_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Message& message = messages_[index];
  message.number = next_number_++;
  message.is_send = is_send;
  message.peer = peer;
  message.sequence = (is_send ? sent_ : received_)[static_cast<size_t>(peer.value())]++;
  message.count = count;
  message.dtype = dtype;
  message.pending = 0;
  message.has_header = false;
  message.wrong_length = absl::OkStatus();
  message.header = {message.sequence, count, static_cast<uint8_t>(dtype)};
  active_.push_back(index);

  const size_t bytes = static_cast<size_t>(count) * SizeOf(dtype);
  absl::Status posted =
      Post(index, true, {reinterpret_cast<std::byte*>(&message.header), sizeof(Header)});
  if (posted.ok() && bytes > 0) {
    posted = Post(index, false, {static_cast<std::byte*>(buffer), bytes});
  }
  if (!posted.ok()) {
    SetFailure(message, posted);
    if (message.pending == 0) Finish(index);
    return failure_;
  }
  if (is_send) {
    payload_bytes_ += static_cast<int64_t>(bytes);
    header_bytes_ += sizeof(Header);
    if (!elsewhere_.empty() && elsewhere_[static_cast<size_t>(peer.value())]) {
      bytes_between_hosts_ += static_cast<int64_t>(bytes);
    }
  }
  return message.number;
}

absl::Status PointToPoint::Post(int index, bool header, absl::Span<std::byte> memory) {
  Message& message = messages_[index];
  const Rank peer = group_.ToTransport(message.peer);
  const Tag tag = MessageTag(communicator_id_, message.sequence, header);
  const uint64_t token = static_cast<uint64_t>(index) * 2 + (header ? 1 : 0);
  if (message.is_send) {
    RZ_RETURN_IF_ERROR(transport_->PostSend(peer, tag, memory, this, token));
  } else {
    RZ_RETURN_IF_ERROR(transport_->PostRecv(peer, tag, memory, this, token));
  }
  ++message.pending;
  ++pending_;
  return absl::OkStatus();
}

void PointToPoint::OnComplete(uint64_t token, const absl::Status& status, size_t bytes) {
  const int index = static_cast<int>(token / 2);
  const bool header = token % 2 == 1;
  Message& message = messages_[index];
  --message.pending;
  --pending_;
  if (failure_.ok()) {
    if (header && !message.is_send && status.ok()) {
      message.has_header = true;
    } else {
      Judge(message, status, bytes, header);
    }
    if (message.has_header) {
      if (absl::Status same = CheckHeader(message); !same.ok()) {
        SetFailure(message, same);
      } else if (!message.wrong_length.ok()) {
        SetFailure(message, message.wrong_length);
      }
    }
  }
  if (message.pending == 0) Finish(index);
}

void PointToPoint::Judge(Message& message, const absl::Status& status, size_t bytes, bool header) {
  const size_t expected =
      header ? sizeof(Header) : static_cast<size_t>(message.count) * SizeOf(message.dtype);
  if (status.ok() && bytes == expected) return;
  const bool length = status.ok() || absl::IsOutOfRange(status);
  if (!length || header || message.is_send) return SetFailure(message, status);
  // The header, which says more, is surely on its way.
  message.wrong_length = status.ok()
                             ? absl::FailedPreconditionError(absl::StrCat(
                                   "got ", bytes, " bytes where ", expected, " were expected"))
                             : status;
}

absl::Status PointToPoint::CheckHeader(const Message& message) const {
  const Header& sent = message.header;
  if (sent.sequence == message.sequence && sent.count == message.count &&
      sent.dtype == static_cast<uint8_t>(message.dtype)) {
    return absl::OkStatus();
  }
  const bool known = sent.dtype < std::size(kAllDTypes);
  return absl::FailedPreconditionError(absl::StrCat(
      "met send ", sent.sequence, " of ", sent.count, " ",
      known ? std::string(NameOf(static_cast<DType>(sent.dtype))) : "unknown elements", " on ",
      group_.Describe(message.peer), ": both sides must give the same count and dtype"));
}

void PointToPoint::SetFailure(const Message& message, const absl::Status& status) {
  if (!failure_.ok()) return;
  Fail(absl::Status(status.code(), absl::StrCat(group_.DescribeSelf(), ", ", Describe(message),
                                                ": ", status.message())));
}

void PointToPoint::Fail(const absl::Status& cause) {
  if (!failure_.ok()) return;
  failure_ = cause;
  for (int index : active_) failed_.push_back(messages_[index].number);
}

void PointToPoint::Finish(int index) {
  const auto at = std::find(active_.begin(), active_.end(), index);
  if (at == active_.end()) return;  // abandoned
  active_.erase(at);
  free_.push_back(index);
}

int PointToPoint::Find(int64_t number) const {
  const auto at = std::lower_bound(
      active_.begin(), active_.end(), number,
      [this](int index, int64_t wanted) { return messages_[index].number < wanted; });
  return at == active_.end() || messages_[*at].number != number ? -1 : *at;
}

absl::Status PointToPoint::ResultOf(int64_t number) const {
  const bool broken = std::find(failed_.begin(), failed_.end(), number) != failed_.end();
  return broken ? failure_ : absl::OkStatus();
}

std::string PointToPoint::Describe(const Message& message) const {
  return absl::StrCat(message.is_send ? "send " : "receive ", message.sequence, " of ",
                      message.count, " ", std::string(NameOf(message.dtype)),
                      message.is_send ? " to " : " from ", group_.Describe(message.peer));
}

std::string PointToPoint::Describe(int64_t number) const {
  const int index = Find(number);
  return index < 0 ? absl::StrCat("message ", number) : Describe(messages_[index]);
}

}  // namespace rz
