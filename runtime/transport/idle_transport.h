// For tests of what stands above a transport: one that moves nothing.
#ifndef RINGZERO_RUNTIME_TRANSPORT_IDLE_TRANSPORT_H_
#define RINGZERO_RUNTIME_TRANSPORT_IDLE_TRANSPORT_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/transport/transport.h"

namespace rz {

// Knows its rank and how many there are once connected; until then it is rank 0 of one.
class IdleTransport : public Transport {
 public:
  std::string LocalAddress() const override { return "idle"; }
  absl::Status Connect(Rank self, absl::Span<const std::string> addresses, Epoch) override {
    self_ = self;
    world_size_ = static_cast<int>(addresses.size());
    return absl::OkStatus();
  }
  Rank rank() const override { return self_; }
  int world_size() const override { return world_size_; }
  absl::Status PostSend(Rank, Tag, absl::Span<const std::byte>, CompletionSink*,
                        uint64_t) override {
    return absl::FailedPreconditionError("moves nothing");
  }
  absl::Status PostRecv(Rank, Tag, absl::Span<std::byte>, CompletionSink*, uint64_t) override {
    return absl::FailedPreconditionError("moves nothing");
  }
  void CancelReceives(CompletionSink*) override {}
  int Progress() override { return 0; }
  void WaitForEvent(Deadline) override {}
  void Wake() override {}
  void Abort(absl::Status) override {}
  std::string Description() const override { return "idle"; }

 private:
  Rank self_ = Rank(0);
  int world_size_ = 1;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_IDLE_TRANSPORT_H_
