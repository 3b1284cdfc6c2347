#include "runtime/job.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/rank_0_server.h"
#include "runtime/launch/socket_place.h"
#include "runtime/rendezvous/client.h"

namespace rz {
namespace {

// It says what somebody did wrong, and not only that something is gone.
bool IsFinding(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

// Jobs that this process has joined where its launcher's ranks meet. All ranks join them in the
// same order, so the n-th has the same name on all; one that is early waits for the others there,
// and not in the job before.
std::atomic<int> joined_meetings{0};

std::string NameOf(const JobEnvironment& environment) {
  const int before = environment.meeting.has_value() ? joined_meetings.load() : 0;
  return before == 0 ? environment.job : absl::StrCat(environment.job, ".", before + 1);
}

RendezvousClientOptions ClientOptions(const JobEnvironment& environment,
                                      const JobOptions& options) {
  RendezvousClientOptions client;
  client.address = environment.rendezvous;
  client.rank_0_serves = environment.meeting.has_value();
  client.token_file = environment.token_file;
  client.connect_timeout = environment.connect_timeout;
  client.world_size = environment.world_size;
  if (environment.rank.has_value()) client.wanted_rank = environment.rank->value();
  if (environment.local_rank.has_value()) client.local_index = *environment.local_rank;
  client.config_hash = options.config_hash;
  client.join_timeout = environment.join_timeout;
  client.launch = LaunchId(environment.launch);
  return client;
}

// A rank 0 that serves and lives answers within it.
constexpr absl::Duration kServingRankIsGone = absl::Seconds(5);

}  // namespace

Job::Job(const JobEnvironment& environment, std::unique_ptr<Transport> transport,
         const JobOptions& options)
    : environment_(environment), options_(options), transport_(std::move(transport)) {}

absl::StatusOr<std::unique_ptr<Job>> Job::Join(const JobEnvironment& environment,
                                               std::unique_ptr<Transport> transport,
                                               const JobOptions& options) {
  std::unique_ptr<Job> job(new Job(environment, std::move(transport), options));
  if (environment.InJob()) RZ_RETURN_IF_ERROR(job->MeetOthers());
  RZ_RETURN_IF_ERROR(job->Connect());
  return job;
}

absl::StatusOr<std::unique_ptr<Job>> Job::Rebuild(std::unique_ptr<Transport> transport,
                                                  int least_ranks, absl::Duration wait) {
  std::unique_ptr<Job> job(new Job(environment_, std::move(transport), options_));
  if (client_ == nullptr) return job;
  RendezvousClientOptions client = ClientOptions(environment_, options_);
  client.job = job->name_ = name_;
  client.address = job->address_ = address_;
  client.worker_address = job->transport_->LocalAddress();
  client.survivor_of = client_->member();
  client.least_ranks = least_ranks;
  client.join_timeout = wait;
  const bool rank_0_served = environment_.meeting.has_value() && server_ == nullptr;
  if (rank_0_served) client.connect_timeout = std::min(client.connect_timeout, kServingRankIsGone);
  absl::StatusOr<std::unique_ptr<RendezvousClient>> joined = RendezvousClient::Join(client);
  if (rank_0_served && absl::IsUnavailable(joined.status())) {
    return absl::UnavailableError(
        absl::StrCat("the rendezvous, which rank 0 served, is not reached, and nothing is rebuilt "
                     "without it; start an rz_rendezvous and set RZ_RENDEZVOUS where rank 0 may "
                     "die: ",
                     joined.status().message()));
  }
  RZ_ASSIGN_OR_RETURN(job->client_, std::move(joined));
  // Where this rank serves, it goes on to.
  job->server_ = std::move(server_);
  return job;
}

absl::Status Job::Connect() {
  if (client_ == nullptr) {
    return transport_->Connect(Rank(0), {transport_->LocalAddress()}, epoch_);
  }
  epoch_ = client_->epoch();
  SetLogRank(client_->rank().value());
  if (absl::Status status = transport_->Connect(client_->rank(), client_->addresses(), epoch_);
      !status.ok()) {
    return Verdict(status);
  }
  // A verdict that came meanwhile is told at once.
  client_->SetVerdictCallback(
      [transport = transport_.get()](const absl::Status& cause) { transport->Abort(cause); });
  return absl::OkStatus();
}

absl::Status Job::MeetOthers() {
  const JobEnvironment& environment = environment_;
  RendezvousClientOptions client = ClientOptions(environment, options_);
  client.job = name_ = NameOf(environment);
  client.worker_address = transport_->LocalAddress();
  if (environment.meeting.has_value()) {
    const Meeting& meeting = *environment.meeting;
    client.address = meeting.address;
    if (client.address.empty()) {
      RZ_ASSIGN_OR_RETURN(client.address,
                          SocketAddress(meeting, absl::StrCat(environment.rank->value())));
    }
    if (environment.rank == Rank(0)) {
      if (meeting.address.empty()) RemoveEndedSockets(client.address);
      RZ_ASSIGN_OR_RETURN(
          server_,
          Rank0Server::Start({.listen = meeting.listen.empty() ? client.address : meeting.listen,
                              .token_file = environment.token_file,
                              .insecure = meeting.insecure}));
    }
  }
  address_ = client.address;
  RZ_ASSIGN_OR_RETURN(client_, RendezvousClient::Join(client));
  if (environment.meeting.has_value()) ++joined_meetings;
  return absl::OkStatus();
}

Job::~Job() {
  const bool joined = client_ != nullptr;
  client_.reset();
  // What the others still wait for of this rank is on its way only once this has ended.
  transport_.reset();
  if (server_ == nullptr || !joined) return;
  Log(LogLevel::kInfo, "rank 0 serves the rendezvous until all ranks are done");
  if (const absl::Status served = server_->ServeUntilDone(name_, epoch_, environment_.join_timeout);
      !served.ok()) {
    Log(LogLevel::kWarning, served.message());
  }
}

absl::Status Job::Barrier(const std::string& id, absl::Duration timeout) {
  if (client_ == nullptr) return absl::OkStatus();
  return client_->Barrier(id, timeout, {});
}

void Job::ReportFailure(const absl::Status& cause) {
  if (client_ == nullptr) return;
  if (const absl::Status status = client_->ReportFailure(client_->rank(), cause.ToString());
      !status.ok()) {
    Log(LogLevel::kWarning, "could not report a failure to the rendezvous: ", status.ToString());
  }
}

absl::Status Job::Verdict(const absl::Status& local) {
  return Verdict(local, IsFinding(local) ? options_.finding_wait : options_.verdict_wait);
}

absl::Status Job::FirstCause(const absl::Status& local) {
  absl::Status verdict = Verdict(local);
  return absl::StrContains(verdict.message(), local.message()) ? local : verdict;
}

absl::Status Job::Verdict(const absl::Status& local, absl::Duration wait) {
  if (client_ == nullptr) return local;
  if (std::optional<absl::Status> verdict = client_->AskForVerdict(wait)) return *verdict;
  ReportFailure(local);
  // The answer to the report comes with the verdict, or just before it.
  return client_->AskForVerdict(wait).value_or(local);
}

absl::Status Job::Leave() { return client_ == nullptr ? absl::OkStatus() : client_->Leave(); }

}  // namespace rz
