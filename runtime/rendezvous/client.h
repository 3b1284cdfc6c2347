// RendezvousClient: a rank's side of the rendezvous.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_CLIENT_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/types.h"
#include "runtime/rendezvous/limits.h"
#include "runtime/rendezvous/membership_types.h"

namespace rz {

struct RendezvousClientOptions {
  std::string address;     // of the server: HOST:PORT or unix:/PATH
  std::string token_file;  // empty: none

  // How long an unreachable server is tried: at first, and again whenever it is lost.
  absl::Duration connect_timeout = limits::kDefaultConnectTimeout;

  std::string job = "default";
  int64_t world_size = 1;
  std::optional<int64_t> wanted_rank;
  std::optional<int64_t> local_index;
  std::string worker_address;  // for the other ranks
  std::string host;            // empty: this machine's name
  uint64_t config_hash = 0;
  absl::Duration join_timeout = limits::kDefaultJoinTimeout;
  LaunchId launch;  // whose process this is; 0: started by hand

  // Rank 0 serves the rendezvous within its own process: once joined, losing it is the verdict.
  bool rank_0_serves = false;

  // Who this process was in an epoch that has failed: joins those that are left of it, if they are
  // no fewer than `least_ranks`, after waiting for join_timeout at most. World size and wanted rank
  // are not looked at.
  std::optional<MemberId> survivor_of;
  int64_t least_ranks = 1;

  // A Join that takes longer says what it waits for, then ever more rarely. `say` may be called
  // from another thread; empty: a warning in the log.
  absl::Duration first_notice = limits::kFirstNotice;
  std::function<void(const std::string&)> say;
};

// A rank that has joined. Thread-safe. A thread of its own waits for the verdict.
class RendezvousClient {
 public:
  // Waits until all ranks have come, or those that are left. A connection that breaks meanwhile is
  // made anew. From its return on the server notices when this process dies, and tells the others.
  //   InvalidArgument   options.address is none; also as Membership::Join
  //   Unavailable       the server cannot be reached (the message has its address and the time
  //                     waited), or a rank failed before all had come
  //   Unauthenticated, PermissionDenied   the server wants a token, or another one
  //   otherwise         as ReadTokenFile and Membership::Join
  static absl::StatusOr<std::unique_ptr<RendezvousClient>> Join(
      const RendezvousClientOptions& options);

  // Leaves unless it has left or the job has failed, and waits for the thread to end.
  virtual ~RendezvousClient() = default;

  virtual Rank rank() const = 0;
  virtual Epoch epoch() const = 0;
  // Who this is, for RendezvousClientOptions::survivor_of of another client.
  virtual MemberId member() const = 0;
  virtual const std::vector<std::string>& addresses() const = 0;  // of all ranks, by rank

  // Waits until all participants (empty: all ranks) have called this with the same id as often.
  //   DeadlineExceeded  not all came; the message lists the missing ranks
  //   InvalidArgument   the ranks disagree about the barrier; the message has the difference
  //   Unavailable       the job has failed, or the server was lost
  virtual absl::Status Barrier(const std::string& id, absl::Duration timeout,
                               const std::vector<Rank>& participants) = 0;

  // Says that this rank (`rank` is its own), or another one as far as this one sees, has failed.
  // OK where it was heard, whether or not it was the first cause.
  //   Unavailable  the server is lost just now; it is not waited for
  virtual absl::Status ReportFailure(Rank rank, const std::string& detail) = 0;

  // Says that this rank is done. OK also where it has said so before, or the job has failed.
  //   Unavailable  the server cannot be told
  virtual absl::Status Leave() = 0;

  // `callback` is called once, when the job has failed, with Unavailable and the verdict's message;
  // also when the server stays unreachable for options.connect_timeout or no longer knows the job.
  // At once, in this call, where that has happened already; otherwise from the client's thread. It
  // must not destroy the client. Called once at most.
  virtual void SetVerdictCallback(std::function<void(const absl::Status&)> callback) = 0;

  // The verdict, waited for up to `timeout`; nothing where there was none by then.
  virtual std::optional<absl::Status> WaitForVerdict(absl::Duration timeout) = 0;

  // The same, for a rank that has failed already: nothing also as soon as the server is lost, for
  // who is about to end does not wait for it to come back.
  virtual std::optional<absl::Status> AskForVerdict(absl::Duration timeout) = 0;
};

// What a launcher tells a server it does not run itself: that a process has ended. `report` is of
// kind kEnded or kExited. Returns the verdict by now, where there is one. Codes as
// RendezvousClient::Join and Membership::ReportFailure.
absl::StatusOr<std::optional<Verdict>> ReportEndedProcess(const std::string& address,
                                                          const std::string& token_file,
                                                          const FailureReport& report);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_CLIENT_H_
