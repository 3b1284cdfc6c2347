// Job: how a program becomes a rank. It reads who it is from the environment, meets the others at
// the rendezvous, connects the transport, and from then on carries the rendezvous's verdict to the
// transport, so that no rank waits for a dead one.
//
//   RZ_ASSIGN_OR_RETURN(JobEnvironment environment, JobEnvironment::FromProcess());
//   RZ_ASSIGN_OR_RETURN(auto job, Job::Join(environment, std::move(transport), {}));
//   ... collectives over job->transport() ...
//   if (!status.ok()) return job->Verdict(status);
//   return job->Leave();
#ifndef RINGZERO_RUNTIME_JOB_H_
#define RINGZERO_RUNTIME_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/types.h"
#include "runtime/job_environment.h"
#include "runtime/transport/transport.h"

namespace rz {

class Rank0Server;
class RendezvousClient;

struct JobOptions {
  // Of everything in which the ranks must agree (0: nothing); a rank with another one is refused.
  uint64_t config_hash = 0;

  // How long Verdict waits for the rendezvous before this rank's own guess is reported.
  absl::Duration verdict_wait = absl::Seconds(2);

  // The same of what the rank has found out itself. Others see only that it is gone and wait for
  // longer, so that its own words come first; not at once, as a death that others report is at
  // times seen here as a difference.
  absl::Duration finding_wait = absl::Milliseconds(200);
};

// A rank of a job. One owner thread, except that verdict callbacks and reports are thread-safe.
class Job {
 public:
  // Waits until all ranks have come, then connects `transport`. The log lines of this process carry
  // its rank from here on.
  //   Unavailable         the rendezvous cannot be reached (the message has its address and the
  //                       time waited), a peer cannot be reached, or another rank has failed
  //   DeadlineExceeded    not all ranks came; the message lists those that are missing
  //   AlreadyExists       another live process has this rank
  //   FailedPrecondition  world size, protocol version or config hash differ from the others'
  //   InvalidArgument     a rank outside the world, or what transport->Connect refuses
  //   Unauthenticated, PermissionDenied   token missing or wrong
  //   otherwise           where this is rank 0 of a launcher's job and serves the rendezvous: as
  //                       SocketAddress and RendezvousServer::Start
  static absl::StatusOr<std::unique_ptr<Job>> Join(const JobEnvironment& environment,
                                                   std::unique_ptr<Transport> transport,
                                                   const JobOptions& options);

  // Leaves, unless it has left or failed: a rank that ends because of an error calls Verdict or
  // ReportFailure first, or the others believe that it is done. Where this is rank 0 and serves the
  // rendezvous, waits until all ranks have left or the job has failed, as long as for their join.
  ~Job();

  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Goes on with those that are left of this job, which has failed: waits until each of the others
  // has called this, or is known to be gone, or `wait` is over for one of those that have. Ranks
  // are given anew in the order of the old ones, `transport` is a fresh one, and Connect is called
  // next. Of the old job nothing is taken but its name; it is to be destroyed as ever.
  //   FailedPrecondition  the rendezvous knows no failure of this job, or the others have gone on
  //                       without this rank; fewer than `least_ranks` are left
  //   DeadlineExceeded    fewer than `least_ranks` have come in time; the message lists the others
  //   otherwise           as Join
  absl::StatusOr<std::unique_ptr<Job>> Rebuild(std::unique_ptr<Transport> transport,
                                               int least_ranks, absl::Duration wait);

  // Connects the transport, as whom the rendezvous says; once, of a job that Rebuild has made.
  // Where that fails the job has failed, for all its ranks, and can be rebuilt in its turn.
  //   Unavailable  a peer cannot be reached, or another rank has failed
  //   otherwise    what transport->Connect refuses
  absl::Status Connect();

  Rank rank() const { return transport_->rank(); }
  int world_size() const { return transport_->world_size(); }
  Epoch epoch() const { return epoch_; }
  Transport* transport() { return transport_.get(); }

  // Waits until every rank has called this with the same id. OK at once in a world of one.
  //   DeadlineExceeded  not all came; the message lists those that are missing
  //   InvalidArgument   the ranks disagree about the barrier
  //   Unavailable       a rank has failed; the message is the verdict
  absl::Status Barrier(const std::string& id, absl::Duration timeout);

  // Tells the others that this rank has failed and why. Returns at once where they know already.
  void ReportFailure(const absl::Status& cause);

  // What the job failed of. A rank that sees an error mostly sees a consequence (a broken link), so
  // the rendezvous is waited for up to `wait` (options.verdict_wait; finding_wait where `local`
  // says what somebody did wrong: FailedPrecondition, InvalidArgument, OutOfRange, DataLoss,
  // Unimplemented, ResourceExhausted); where it says nothing, `local` is reported as this rank's
  // failure, and the verdict that comes of it returned. A rendezvous that is lost is not waited
  // for: `local` is all there is.
  absl::Status Verdict(const absl::Status& local);
  absl::Status Verdict(const absl::Status& local, absl::Duration wait);

  // The same for people: where the verdict has this rank's own words, those, with their code.
  absl::Status FirstCause(const absl::Status& local);

  // Says that this rank is done; the others go on. Called once, also by the destructor.
  //   Unavailable  the rendezvous cannot be told
  absl::Status Leave();

 private:
  Job(const JobEnvironment& environment, std::unique_ptr<Transport> transport,
      const JobOptions& options);

  // Serves where this is rank 0 and `meeting` says so; then joins.
  absl::Status MeetOthers();

  const JobEnvironment environment_;
  const JobOptions options_;
  Epoch epoch_ = Epoch(1);
  std::string name_;                     // of the job, at the rendezvous
  std::string address_;                  // of that
  std::unique_ptr<Rank0Server> server_;  // null where another serves
  std::unique_ptr<Transport> transport_;
  // After the transport: its thread calls transport_->Abort and ends first.
  std::unique_ptr<RendezvousClient> client_;  // null in a world of one
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_JOB_H_
