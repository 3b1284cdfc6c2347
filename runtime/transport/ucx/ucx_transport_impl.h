// The class behind CreateUcxTransport. ucx_transport.cc has the life of an operation,
// ucx_waiting.cc how a rank waits, ucx_ending.cc how peers go: death, leaving, abort.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_TRANSPORT_IMPL_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_TRANSPORT_IMPL_H_

#include <ucp/api/ucp.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/types.h"
#include "runtime/transport/transport.h"
#include "runtime/transport/ucx/operation.h"
#include "runtime/transport/ucx/self_link.h"
#include "runtime/transport/ucx/ucx_options.h"
#include "runtime/transport/ucx/ucx_peer.h"
#include "runtime/transport/ucx/ucx_worker.h"

namespace rz {

class UcxTransport final : public Transport {
 public:
  // `wake_fd` is an eventfd; both are owned from here on.
  UcxTransport(const UcxOptions& options, std::unique_ptr<UcxWorker> worker, int wake_fd);
  ~UcxTransport() override;

  std::string LocalAddress() const override;
  absl::Status Connect(Rank self, absl::Span<const std::string> addresses, Epoch epoch) override;
  Rank rank() const override { return self_; }
  int world_size() const override { return world_size_; }
  absl::Status PostSend(Rank peer, Tag tag, absl::Span<const std::byte> data, CompletionSink* sink,
                        uint64_t token) override;
  absl::Status PostSyncSend(Rank peer, Tag tag, absl::Span<const std::byte> data,
                            CompletionSink* sink, uint64_t token) override;
  absl::Status PostRecv(Rank peer, Tag tag, absl::Span<std::byte> buffer, CompletionSink* sink,
                        uint64_t token) override;
  void CancelReceives(CompletionSink* sink) override;
  int Progress() override;
  void WaitForEvent(Deadline deadline) override;
  int EventDescriptor() const override { return worker_->event_fd(); }
  bool ArmEvent() override;
  void Wake() override;
  void Abort(absl::Status cause) override;
  absl::StatusOr<std::unique_ptr<SharedMemory>> AllocateShared(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<SharedMemory>> MapShared(Rank peer, std::string_view key) override;
  void RingDoorbell(Rank peer) override;
  void ExpectFewCores() override { cores_are_few_ = true; }
  std::string Description() const override;

 private:
  // UCX calls these from within ucp_worker_progress, ucp_request_cancel and ucp_ep_close_nbx, on
  // the owner's thread; they only note what happened.
  static void OnSendDone(void* request, ucs_status_t status, void* operation);
  static void OnReceiveDone(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                            void* operation);
  static void OnEndpointError(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t OnControlMessage(void* transport, const void* header, size_t header_bytes,
                                       void* data, size_t data_bytes,
                                       const ucp_am_recv_param_t* param);

  absl::Status ConnectTo(Peer& peer, const std::string& address);
  absl::Status CheckPost(Rank peer, Tag tag) const;
  // `send` is ucp_tag_send_nbx or ucp_tag_send_sync_nbx.
  absl::Status Send(decltype(&ucp_tag_send_nbx) send, Rank peer, Tag tag,
                    absl::Span<const std::byte> data, CompletionSink* sink, uint64_t token);
  UcxOperation* NewOperation(UcxOperation::Kind kind, Rank peer, Tag tag, CompletionSink* sink,
                             uint64_t token);
  bool HasArrived(const Peer& peer, Tag tag) const;
  // Takes over what ucp_tag_{send,recv}_nbx returned for `operation`, which is under way.
  void Started(UcxOperation* operation, ucs_status_ptr_t request);
  void Finish(UcxOperation* operation, ucs_status_t status, size_t bytes);
  int Deliver();
  // Progress without telling anybody.
  void Move();
  // Moves UCX; true when it had nothing (more) to do.
  bool Pump();
  // Waits on both descriptors.
  void Sleep(Deadline deadline);
  bool TakeWake();
  // Progress has something to do, whatever UCX says.
  bool HasWork() const;
  absl::Status abort_cause() const;
  std::string Lanes() const;

  // ucx_ending.cc
  void NeedsAttention(Peer& peer);
  void AttendToPeers(bool quiet);
  void Retire(Peer& peer);
  void CloseEndpoint(Peer& peer);
  // False while a close by force could meet UCX's own handshake with the peer, or take back what
  // the peer is to be told.
  bool MayClose(const Peer& peer) const;
  // Nothing waits for this rank's close of a peer that left: the peer closes first.
  static bool MayStayOpen(const Peer& peer);
  void SendControl(Peer& peer, ControlMessage::Kind kind);
  void ReapCloses(bool quiet);
  void AbandonOperations(Peer& peer);
  void BeginAbort();
  void FinishAbort(bool quiet);
  void SayGoodbye();
  // Until the other ranks know that this one ends, and how; bounded.
  void TakeLeave();
  bool GoodbyeDone() const;

  const UcxOptions options_;
  std::unique_ptr<UcxWorker> worker_;
  const int wake_fd_;

  bool connected_ = false;
  Rank self_{0};
  int world_size_ = 0;
  Epoch epoch_{0};
  std::string lanes_;  // as they were at Connect
  std::unique_ptr<Peer[]> peers_;
  bool cores_are_few_ = false;

  OperationPool pool_;
  OperationList ready_;  // completed, their sinks not told yet
  SelfLink self_link_;

  std::vector<int32_t> attention_;  // ranks whose state changed
  int troubled_rounds_ = 0;
  int closes_under_way_ = 0;
  // Peers whose endpoint is closed and some of whose operations UCX still holds.
  bool has_leftovers_ = false;

  enum class AbortState : uint8_t { kNone, kUnderWay, kDone };
  AbortState abort_state_ = AbortState::kNone;
  Deadline abort_deadline_ = Deadline::InfiniteFuture();
  int abort_quiet_rounds_ = 0;
  // An endpoint was closed in UCX's handshake, which Debian's build takes badly at the worker's
  // end.
  bool leak_worker_ = false;
  std::atomic<int> own_regions_{0};  // of AllocateShared, that are there

  std::atomic<bool> wake_{false};
  std::atomic<bool> abort_requested_{false};
  // Not absl::Mutex: tsan does not see through the distribution's uninstrumented one.
  mutable std::mutex mutex_;
  absl::Status abort_cause_;  // guarded by mutex_
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_TRANSPORT_IMPL_H_
