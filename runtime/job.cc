#include "runtime/job.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/duration_text.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/rendezvous/client.h"
#include "runtime/rendezvous/limits.h"

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

using GetVariable = std::function<const char*(const char*)>;

std::optional<std::string> Text(const GetVariable& get, const char* name) {
  const char* const value = get(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

absl::StatusOr<std::optional<int>> Number(const GetVariable& get, const char* name, int min,
                                          int max) {
  const std::optional<std::string> text = Text(get, name);
  if (!text.has_value()) return std::optional<int>();
  int64_t value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < min || value > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: ", name, "=", absl::CHexEscape(*text),
                     " is not a whole number within ", min, " to ", max));
  }
  return std::optional<int>(static_cast<int>(value));
}

absl::StatusOr<absl::Duration> Timeout(const GetVariable& get, const char* name,
                                       absl::Duration by_default) {
  const std::optional<std::string> text = Text(get, name);
  if (!text.has_value()) return by_default;
  const std::optional<absl::Duration> value = ParseDuration(*text);
  if (!value || *value < JobEnvironment::kShortestTimeout ||
      *value > JobEnvironment::kLongestTimeout) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: ", name, "=", absl::CHexEscape(*text),
                     " is not a time such as 90s or 5m within ",
                     absl::FormatDuration(JobEnvironment::kShortestTimeout), " to ",
                     absl::FormatDuration(JobEnvironment::kLongestTimeout)));
  }
  return *value;
}

absl::StatusOr<uint64_t> LaunchNumber(const GetVariable& get) {
  const std::optional<std::string> text = Text(get, "RZ_LAUNCH");
  uint64_t value = 0;
  if (text.has_value() && !absl::SimpleAtoi(*text, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: RZ_LAUNCH=", absl::CHexEscape(*text), " is not a whole number"));
  }
  return value;
}

absl::Status CheckTogether(const JobEnvironment& environment, bool has_world_size) {
  if (!environment.rendezvous.empty() && !has_world_size) {
    return absl::InvalidArgumentError(
        "environment: RZ_RENDEZVOUS is set but RZ_WORLD_SIZE is not: say how many ranks there are");
  }
  if (environment.rendezvous.empty() && environment.world_size > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "environment: RZ_WORLD_SIZE=", environment.world_size,
        " but RZ_RENDEZVOUS is not set: say where the ranks meet (HOST:PORT of rz_rendezvous), or "
        "start them with rz_run"));
  }
  if (environment.rank.has_value() && environment.rank->value() >= environment.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: RZ_RANK=", environment.rank->value(),
                     " is outside the world of RZ_WORLD_SIZE=", environment.world_size));
  }
  return absl::OkStatus();
}

RendezvousClientOptions ClientOptions(const JobEnvironment& environment, const JobOptions& options,
                                      std::string address) {
  RendezvousClientOptions client;
  client.address = environment.rendezvous;
  client.token_file = environment.token_file;
  client.connect_timeout = environment.connect_timeout;
  client.job = environment.job;
  client.world_size = environment.world_size;
  if (environment.rank.has_value()) client.wanted_rank = environment.rank->value();
  if (environment.local_rank.has_value()) client.local_index = *environment.local_rank;
  client.worker_address = std::move(address);
  client.config_hash = options.config_hash;
  client.join_timeout = environment.join_timeout;
  client.launch = LaunchId(environment.launch);
  return client;
}

}  // namespace

absl::StatusOr<JobEnvironment> JobEnvironment::Parse(const GetVariable& get) {
  JobEnvironment environment;
  environment.rendezvous = Text(get, "RZ_RENDEZVOUS").value_or("");
  environment.job = Text(get, "RZ_JOB").value_or(environment.job);
  environment.token_file = Text(get, "RZ_TOKEN_FILE").value_or("");
  RZ_ASSIGN_OR_RETURN(const std::optional<int> world_size,
                      Number(get, "RZ_WORLD_SIZE", 1, limits::kMaxWorldSize));
  environment.world_size = world_size.value_or(1);
  RZ_ASSIGN_OR_RETURN(const std::optional<int> rank,
                      Number(get, "RZ_RANK", 0, limits::kMaxWorldSize - 1));
  if (rank.has_value()) environment.rank = Rank(*rank);
  RZ_ASSIGN_OR_RETURN(environment.local_rank,
                      Number(get, "RZ_LOCAL_RANK", 0, static_cast<int>(limits::kMaxLocalIndex)));
  RZ_ASSIGN_OR_RETURN(environment.launch, LaunchNumber(get));
  RZ_ASSIGN_OR_RETURN(environment.connect_timeout,
                      Timeout(get, "RZ_CONNECT_TIMEOUT", environment.connect_timeout));
  RZ_ASSIGN_OR_RETURN(environment.join_timeout,
                      Timeout(get, "RZ_JOIN_TIMEOUT", environment.join_timeout));
  RZ_RETURN_IF_ERROR(CheckTogether(environment, world_size.has_value()));
  return environment;
}

absl::StatusOr<JobEnvironment> JobEnvironment::FromProcess() {
  return Parse([](const char* name) -> const char* { return std::getenv(name); });
}

Job::Job(std::unique_ptr<Transport> transport, const JobOptions& options)
    : options_(options), transport_(std::move(transport)) {}

absl::StatusOr<std::unique_ptr<Job>> Job::Join(const JobEnvironment& environment,
                                               std::unique_ptr<Transport> transport,
                                               const JobOptions& options) {
  std::unique_ptr<Job> job(new Job(std::move(transport), options));
  Transport& links = *job->transport_;
  if (environment.rendezvous.empty()) {
    const std::string address = links.LocalAddress();
    RZ_RETURN_IF_ERROR(links.Connect(Rank(0), {address}, job->epoch_));
    return job;
  }
  RZ_ASSIGN_OR_RETURN(job->client_, RendezvousClient::Join(
                                        ClientOptions(environment, options, links.LocalAddress())));
  job->epoch_ = job->client_->epoch();
  SetLogRank(job->client_->rank().value());
  if (absl::Status status =
          links.Connect(job->client_->rank(), job->client_->addresses(), job->epoch_);
      !status.ok()) {
    return job->Verdict(status);
  }
  // A verdict that came meanwhile is told at once.
  job->client_->SetVerdictCallback([&links](const absl::Status& cause) { links.Abort(cause); });
  return job;
}

Job::~Job() = default;

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
