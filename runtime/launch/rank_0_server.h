// Rank0Server: the rendezvous within the process of rank 0, for jobs that mpirun, srun or torchrun
// has started and that name no other.
#ifndef RINGZERO_RUNTIME_LAUNCH_RANK_0_SERVER_H_
#define RINGZERO_RUNTIME_LAUNCH_RANK_0_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/types.h"
#include "runtime/rendezvous/server.h"

namespace rz {

// One job's share in the server; jobs of this process with the same address have one together. The
// last to go stops it. Thread-safe.
class Rank0Server {
 public:
  // As RendezvousServer::Start, unless this process serves at options.listen already.
  static absl::StatusOr<std::unique_ptr<Rank0Server>> Start(const RendezvousServerOptions& options);

  ~Rank0Server();

  Rank0Server(const Rank0Server&) = delete;
  Rank0Server& operator=(const Rank0Server&) = delete;

  // Serves until all other ranks have left that epoch of that job, or it has failed and they have
  // been told. Says who is waited for, as every wait does.
  //   DeadlineExceeded  it goes on after `patience`; the message lists who has not left
  absl::Status ServeUntilDone(const std::string& job, Epoch epoch, absl::Duration patience);

 private:
  Rank0Server(std::string listen, RendezvousServer* server)
      : listen_(std::move(listen)), server_(*server) {}

  const std::string listen_;
  RendezvousServer& server_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_LAUNCH_RANK_0_SERVER_H_
