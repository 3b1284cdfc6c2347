// RendezvousServer: the rendezvous on a port. Used by rz_rendezvous alone and embedded by rz_run.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_SERVER_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/rendezvous/service.h"

namespace rz {

struct RendezvousServerOptions {
  // HOST:PORT, port 0: any free one; or unix:/PATH, a socket file that this user alone can reach.
  std::string listen = "127.0.0.1:0";
  std::string token_file;  // empty: no token is asked for

  // Addresses other machines can reach are refused without this: what goes over the wire, tokens
  // and worker addresses, is neither encrypted nor authenticated.
  bool insecure = false;
};

// Waiting ranks hold no threads. Thread-safe. Start no earlier than the last fork of the process:
// gRPC does not survive one.
class RendezvousServer {
 public:
  // Serves from its return on.
  //   InvalidArgument     options.listen is neither HOST:PORT nor unix:/PATH, or does not resolve
  //   FailedPrecondition  an address beyond loopback without options.insecure
  //   Unavailable         the port or the path cannot be bound (taken, or not ours)
  //   otherwise           as ReadTokenFile
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(
      const RendezvousServerOptions& options);

  // Shutdown.
  virtual ~RendezvousServer() = default;

  // HOST:PORT with the port that was bound, or unix:/PATH.
  virtual const std::string& address() const = 0;

  // What is served, for callers in this process.
  virtual RendezvousService* service() = 0;

  // Answers whoever waits with Unavailable and stops listening. Idempotent.
  virtual void Shutdown() = 0;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_SERVER_H_
