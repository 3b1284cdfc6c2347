#include "runtime/transport/sim/sim_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "runtime/base/status_macros.h"

namespace rz {

SimTransport::SimTransport(SimWorld* world, int endpoint, bool connected)
    : world_(world), endpoint_(endpoint) {
  if (!connected) return;
  self_ = Rank(endpoint);
  for (int i = 0; i < world->network_endpoints(); ++i) endpoints_.push_back(i);
}

std::string SimTransport::LocalAddress() const { return absl::StrCat("sim:", endpoint_); }

absl::Status SimTransport::Connect(Rank self, absl::Span<const std::string> addresses,
                                   Epoch epoch) {
  if (!endpoints_.empty()) return absl::FailedPreconditionError("connected already");
  if (self.value() < 0 || self.value() >= static_cast<int>(addresses.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", self.value(), " is outside a world of ", addresses.size()));
  }
  std::vector<int> endpoints;
  for (const std::string& address : addresses) {
    absl::string_view number = address;
    int endpoint = -1;
    if (!absl::ConsumePrefix(&number, "sim:") || !absl::SimpleAtoi(number, &endpoint) ||
        endpoint < 0 || endpoint >= world_->network_endpoints()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", address, "' is no address of this simulated world"));
    }
    endpoints.push_back(endpoint);
  }
  self_ = self;
  epoch_ = epoch;
  endpoints_ = std::move(endpoints);
  return absl::OkStatus();
}

absl::Status SimTransport::CheckPost(Rank peer, Tag tag) {
  world_->CheckFault();
  if (dead_) return absl::CancelledError(absl::StrCat("rank ", self_.value(), " was killed"));
  if (aborted_.load(std::memory_order_acquire)) return AbortCause();
  if (endpoints_.empty()) return absl::FailedPreconditionError("not connected");
  if (peer.value() < 0 || peer.value() >= world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", peer.value(), " is outside a world of ", world_size()));
  }
  if (tag > kMaxTag) return absl::InvalidArgumentError(absl::StrCat("tag ", tag, " is too large"));
  return world_->CheckPeer(endpoints_[peer.value()], peer);
}

absl::Status SimTransport::PostSend(Rank peer, Tag tag, absl::Span<const std::byte> data,
                                    CompletionSink* sink, uint64_t token) {
  RZ_RETURN_IF_ERROR(CheckPost(peer, tag));
  const SimNetwork::Stream stream{endpoint_, endpoints_[peer.value()], tag, epoch_.value()};
  world_->network_.Send(stream, data, world_->DrawEager(), sink, token);
  return absl::OkStatus();
}

absl::Status SimTransport::PostRecv(Rank peer, Tag tag, absl::Span<std::byte> buffer,
                                    CompletionSink* sink, uint64_t token) {
  RZ_RETURN_IF_ERROR(CheckPost(peer, tag));
  constexpr int kGarbage = 0xcb;
  if (world_->options_.scribble_receives && !buffer.empty()) {
    std::memset(buffer.data(), kGarbage, buffer.size());
  }
  const SimNetwork::Stream stream{endpoints_[peer.value()], endpoint_, tag, epoch_.value()};
  world_->network_.Receive(stream, buffer, sink, token);
  return absl::OkStatus();
}

void SimTransport::CancelReceives(CompletionSink* sink) {
  world_->network_.CancelReceives(endpoint_, sink, absl::CancelledError("taken back"));
}

int SimTransport::Progress() {
  if (aborted_.load(std::memory_order_acquire) && !cancelled_) {
    cancelled_ = true;
    world_->network_.CancelAll(endpoint_, AbortCause());
  }
  if (!dead_) world_->DeliverSome();
  if (dead_ && !cancelled_) return 0;
  // Sinks may post, which may add completions: those are for the next call.
  delivering_.swap(world_->network_.completions(endpoint_));
  for (const SimNetwork::Completion& completion : delivering_) {
    completion.sink->OnComplete(completion.token, completion.status, completion.bytes);
  }
  const int delivered = static_cast<int>(delivering_.size());
  delivering_.clear();
  return delivered;
}

void SimTransport::WaitForEvent(Deadline deadline) {
  SimNetwork& network = world_->network_;
  if (aborted_.load(std::memory_order_acquire) && !cancelled_) return;
  if (!network.completions(endpoint_).empty() || network.in_flight() > 0) {
    if (world_->links() != nullptr && network.completions(endpoint_).empty()) world_->Step();
    return;
  }
  const absl::Duration remaining = deadline.Remaining(*world_->clock());
  if (remaining > absl::ZeroDuration() && remaining < absl::InfiniteDuration()) {
    world_->clock()->Advance(remaining);
  }
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SimTransport::AllocateShared(size_t bytes) {
  return world_->memory_.Allocate(endpoint_, bytes);
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SimTransport::MapShared(Rank peer,
                                                                      std::string_view key) {
  if (peer.value() < 0 || peer.value() >= world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", peer.value(), " is outside a world of ", world_size()));
  }
  return world_->memory_.Map(endpoint_, endpoints_[peer.value()], key);
}

// Nobody sleeps here: who waits is polled again.
void SimTransport::RingDoorbell(Rank) {}

void SimTransport::Abort(absl::Status cause) {
  absl::MutexLock lock(&mutex_);
  if (aborted_.load(std::memory_order_relaxed)) return;
  abort_cause_ = std::move(cause);
  aborted_.store(true, std::memory_order_release);
}

absl::Status SimTransport::AbortCause() const {
  absl::MutexLock lock(&mutex_);
  return abort_cause_;
}

}  // namespace rz
