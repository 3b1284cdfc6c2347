// One simulated rank's Transport. Made by SimWorld, which polls and kills it.
#ifndef RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_TRANSPORT_H_
#define RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_TRANSPORT_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/types.h"
#include "runtime/transport/sim/sim_world.h"
#include "runtime/transport/transport.h"

namespace rz {

class SimTransport final : public Transport {
 public:
  SimTransport(SimWorld* world, int endpoint, bool connected);

  std::string LocalAddress() const override;
  absl::Status Connect(Rank self, absl::Span<const std::string> addresses, Epoch epoch) override;
  Rank rank() const override { return self_; }
  int world_size() const override { return static_cast<int>(endpoints_.size()); }
  absl::Status PostSend(Rank peer, Tag tag, absl::Span<const std::byte> data, CompletionSink* sink,
                        uint64_t token) override;
  absl::Status PostRecv(Rank peer, Tag tag, absl::Span<std::byte> buffer, CompletionSink* sink,
                        uint64_t token) override;
  void CancelReceives(CompletionSink* sink) override;
  int Progress() override;

  // Never blocks: with nothing to be delivered, the clock jumps to the deadline.
  void WaitForEvent(Deadline deadline) override;
  void Wake() override {}
  void Abort(absl::Status cause) override;
  absl::StatusOr<std::unique_ptr<SharedMemory>> AllocateShared(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<SharedMemory>> MapShared(Rank peer, std::string_view key) override;
  void RingDoorbell(Rank peer) override;
  std::string Description() const override { return "sim"; }

 private:
  friend class SimWorld;

  absl::Status CheckPost(Rank peer, Tag tag);
  absl::Status AbortCause() const;

  SimWorld* const world_;
  const int endpoint_;
  Rank self_;
  Epoch epoch_;
  std::vector<int> endpoints_;  // of each rank; empty: not connected
  bool dead_ = false;
  bool death_is_known_ = false;
  bool cancelled_ = false;  // the abort has been carried out

  std::vector<SimNetwork::Completion> delivering_;

  std::atomic<bool> aborted_{false};
  mutable absl::Mutex mutex_;
  absl::Status abort_cause_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_TRANSPORT_H_
