// UcxWorker: one UCX context with one worker, configured for our use; closes both.
//
// How UCX is set up, and why:
//   TLS                   shared memory is POSIX only: System V segments are readable by the group
//                         and outlive a killed process.
//   MM_ERROR_HANDLING     without it, endpoints that report a peer's death share no memory.
//   KEEPALIVE_INTERVAL    UCX's default notices a death on shared memory after 20 s.
//   ZCOPY_THRESH          where a peer dies while a large message to it is sent from user memory
//                         over TCP, UCX completes the message twice, which ends this process too
//                         (an assertion in Debian's build). Copied messages are safe, and as fast.
//   RNDV_THRESH           UCX asks the receiver first for messages of this size. Over TCP the
//                         question and its answer queue behind the bytes of other messages, which
//                         costs 15 % of the bandwidth of a network and half of it where both ways
//                         are full. Slices of collectives are smaller, and go at once.
//   TCP_*X_SEG_SIZE       bytes of a system call: UCX's 8 KiB reach half of what 256 KiB do.
//
// ucp_config_modify accepts keys it does not know, so tests look at the lanes that came out.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_WORKER_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_WORKER_H_

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/transport/ucx/ucx_options.h"

namespace rz {

// What UCX maps in /dev/shm for a worker, rounded up. Where less is free, creating a worker fails
// although other transports would do.
inline constexpr uint64_t kSharedMemoryBytesPerWorker = uint64_t{9} << 19;  // 4.5 MiB

// UCX's transport list for `options` on a host whose /dev/shm has `shared_memory_bytes` free.
//   ResourceExhausted  shared memory alone is asked for, and is too small
absl::StatusOr<std::string> TransportList(const UcxOptions& options, uint64_t shared_memory_bytes,
                                          bool user_chose_transports);

class UcxWorker {
 public:
  // Errors as CreateUcxTransport.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Create(const UcxOptions& options);

  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;
  // Every endpoint has been closed, or Leak was called.
  ~UcxWorker();

  ucp_worker_h handle() const { return worker_; }
  ucp_context_h context() const { return context_; }
  // Readable when an armed worker has something to do.
  int event_fd() const { return event_fd_; }
  // UCX's own address bytes.
  const std::string& address() const { return address_; }

  // Gives the worker up without closing it: Debian's build ends the process when a worker is
  // destroyed over an endpoint that is not closed.
  void Leak();

 private:
  UcxWorker() = default;
  absl::Status Open(const UcxOptions& options, const std::string& transports);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::string address_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_WORKER_H_
