// Connection: one channel to the rendezvous server, with the token, deadlines and retries every
// call needs. Knows gRPC; used by the client only.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_CONNECTION_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_CONNECTION_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/rendezvous.grpc.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/sync.h"

namespace rz {

// Thread-safe.
class Connection {
 public:
  using Stub = ringzero::rendezvous::v1::Rendezvous::Stub;
  using CallFunction = std::function<grpc::Status(Stub&, grpc::ClientContext*)>;

  // Does not connect yet. `advice` ends the message where the server is not reached.
  //   InvalidArgument  `address` is neither HOST:PORT nor unix:/PATH
  //   otherwise        as ReadTokenFile
  static absl::StatusOr<std::unique_ptr<Connection>> Create(const std::string& address,
                                                            const std::string& token_file,
                                                            absl::Duration connect_timeout,
                                                            std::string advice = kStartOne);

  static constexpr char kStartOne[] =
      "is rz_rendezvous or rz_run running there, and RZ_RENDEZVOUS right?";

  // From now on a server that is lost is not tried again: nobody would start it anew.
  void GiveUpOnceLost();

  // Makes a call, again whenever the server is not reached, until `deadline`. Each time the server
  // is tried for connect_timeout at most.
  //   Unavailable  (without verdict) not reached; the message has the address and the time waited
  //   Cancelled    Stop was called
  //   otherwise    what the server answered
  absl::Status Call(Deadline deadline, const CallFunction& call);

  // As Call, for the Watch, which has no deadline. `on_change` is called from within this one: with
  // true each time the server has got the call, with false each time the server was lost after it.
  absl::Status Watch(const ringzero::rendezvous::v1::WatchRequest& request,
                     ringzero::rendezvous::v1::WatchResponse* response,
                     const std::function<void(bool open)>& on_change);

  // A single try of `call` at a server that is connected; Unavailable where it is not.
  absl::Status TryOnce(Deadline deadline, const CallFunction& call);

  // How long the server has been tried in vain by now; 0 where it is connected, or nobody calls.
  absl::Duration TriedFor();

  // Ends every call, now and from now on.
  void Stop();

  const std::string& address() const { return address_; }

 private:
  Connection(std::string address, std::string token, absl::Duration connect_timeout,
             std::string advice);

  // Waits for a connection; Unavailable as in Call.
  absl::Status WaitUntilConnected(Deadline deadline);
  absl::Status CallOnce(Deadline deadline, const CallFunction& call);
  void SetTryingSince(absl::Duration time);
  bool Stopped();
  absl::Duration ConnectTimeout();
  // Waits `pause`; false where Stop came.
  bool Pause(absl::Duration pause);

  const std::string address_;
  const std::string token_;
  const std::string advice_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;

  Mutex mutex_;
  CondVar stop_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration connect_timeout_ ABSL_GUARDED_BY(mutex_);
  std::vector<grpc::ClientContext*> active_ ABSL_GUARDED_BY(mutex_);
  absl::Duration trying_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_CONNECTION_H_
