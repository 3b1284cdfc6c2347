#include "runtime/rendezvous/client.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/sync.h"
#include "runtime/rendezvous/connection.h"
#include "runtime/rendezvous/grpc_status.h"
#include "runtime/rendezvous/wait_notices.h"

namespace rz {
namespace {

namespace pb = ::ringzero::rendezvous::v1;

Deadline After(absl::Duration timeout) { return Deadline::After(*Clock::Steady(), timeout); }

// Longest wait for a Leave that a destructor makes.
constexpr absl::Duration kLastWords = absl::Seconds(2);
// A launcher that is about to end tries no longer to reach a server elsewhere.
constexpr absl::Duration kReportConnectTimeout = absl::Seconds(2);
// And for what a notice says of the others: it is no use to anybody later.
constexpr absl::Duration kNoticeTimeout = absl::Seconds(2);

constexpr char kRank0Serves[] =
    "rank 0 serves it; has it started, on this host, and not ended? Otherwise name an "
    "rz_rendezvous "
    "in RZ_RENDEZVOUS";

uint64_t RandomIncarnation() {
  std::random_device source;
  uint64_t value = 0;
  while (value == 0) value = (uint64_t{source()} << 32) | source();
  return value;
}

std::string HostName() {
  char name[limits::kMaxHostBytes + 1] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

// `text` as the server takes it: one line of ASCII within the limit, never empty.
std::string OneLine(std::string text) {
  if (text.size() > limits::kMaxDetailBytes) text.resize(limits::kMaxDetailBytes);
  for (char& c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = ' ';
  }
  return text.empty() ? "no reason given" : text;
}

std::optional<Verdict> ReadVerdict(bool has_verdict, const pb::Verdict& verdict) {
  if (!has_verdict) return std::nullopt;
  return Verdict{Epoch(verdict.epoch()), Rank(verdict.rank()), verdict.message()};
}

pb::JoinRequest MakeJoinRequest(const RendezvousClientOptions& options, uint64_t incarnation) {
  pb::JoinRequest request;
  request.mutable_protocol()->set_major(limits::kProtocolMajor);
  request.mutable_protocol()->set_minor(limits::kProtocolMinor);
  request.set_job(options.job);
  request.set_world_size(options.world_size);
  if (options.wanted_rank.has_value()) request.set_wanted_rank(*options.wanted_rank);
  request.set_incarnation(incarnation);
  request.set_address(options.worker_address);
  request.set_host(options.host.empty() ? HostName() : options.host);
  if (options.local_index.has_value()) request.set_local_index(*options.local_index);
  request.set_config_hash(options.config_hash);
  request.set_launch(options.launch.value());
  if (options.survivor_of.has_value()) {
    pb::Member& was = *request.mutable_survivor_of();
    was.set_job(options.survivor_of->job);
    was.set_epoch(options.survivor_of->epoch.value());
    was.set_rank(options.survivor_of->rank.value());
    was.set_incarnation(options.survivor_of->incarnation.value());
    request.set_least_ranks(options.least_ranks);
  }
  return request;
}

class GrpcClient : public RendezvousClient {
 public:
  GrpcClient(std::unique_ptr<Connection> connection, bool rank_0_serves)
      : connection_(std::move(connection)), rank_0_serves_(rank_0_serves) {}

  ~GrpcClient() override {
    bool leave = false;
    {
      MutexLock lock(&mutex_);
      leave = watcher_.joinable() && !left_ && !failed_ && !verdict_.has_value();
    }
    if (leave) {
      if (const absl::Status status = LeaveWithin(kLastWords); !status.ok()) {
        Log(LogLevel::kInfo, "could not leave the rendezvous: ", status.ToString());
      }
    }
    connection_->Stop();
    if (watcher_.joinable()) watcher_.join();
  }

  absl::Status JoinJob(const RendezvousClientOptions& options) {
    const WaitNotices notices(
        options.first_notice,
        [&](absl::Duration waited) { return WhatIsWaitedFor(options, waited); },
        options.say ? options.say : [](const std::string& text) { Log(LogLevel::kWarning, text); });
    pb::JoinRequest request = MakeJoinRequest(options, RandomIncarnation());
    const Deadline give_up = After(options.join_timeout + options.connect_timeout);
    pb::JoinResponse response;
    RZ_RETURN_IF_ERROR(connection_->Call(
        // The server's own deadline comes first: its answer lists who is missing.
        Deadline(give_up.at() + limits::kRpcTimeout),
        [&](Connection::Stub& stub, grpc::ClientContext* context) {
          const absl::Duration left =
              std::min(give_up.Remaining(*Clock::Steady()), options.join_timeout);
          request.set_timeout_ms(std::max<int64_t>(1, absl::ToInt64Milliseconds(left)));
          return stub.Join(context, request, &response);
        }));
    member_.set_job(request.job());
    member_.set_epoch(response.epoch());
    member_.set_rank(response.rank());
    member_.set_incarnation(request.incarnation());
    RZ_RETURN_IF_ERROR(ReadAddresses(response));
    if (rank_0_serves_) connection_->GiveUpOnceLost();
    watcher_ = std::thread([this] { WatchForVerdict(); });
    // From here on the server notices when this process dies. The watcher says one or the other.
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, absl::InfiniteDuration(),
                     [this] { return watching_ || verdict_.has_value(); });
    return absl::OkStatus();
  }

  // While joining; from another thread.
  std::string WhatIsWaitedFor(const RendezvousClientOptions& options, absl::Duration waited) {
    const std::string who = options.survivor_of.has_value() ? "a survivor"
                            : options.wanted_rank.has_value()
                                ? absl::StrCat("rank ", *options.wanted_rank)
                                : "this worker";
    const auto time = [](absl::Duration passed, absl::Duration limit) {
      return absl::StrCat(absl::ToInt64Seconds(passed), " s of ", absl::ToDoubleSeconds(limit),
                          " s");
    };
    pb::GatheringRequest request;
    request.set_job(options.job);
    pb::GatheringResponse response;
    const absl::Status status = connection_->TryOnce(
        After(kNoticeTimeout), [&](Connection::Stub& stub, grpc::ClientContext* context) {
          return stub.Gathering(context, request, &response);
        });
    const std::string& address = connection_->address();
    if (status.code() == absl::StatusCode::kUnavailable) {
      return absl::StrCat(who, " waits for the rendezvous at ", address, ", ",
                          time(connection_->TriedFor(), options.connect_timeout),
                          rank_0_serves_ ? ", which rank 0 serves: has it started?"
                                         : ": is rz_rendezvous or rz_run running there?");
    }
    if (!status.ok()) {
      return absl::StrCat(who, " waits for the others at ", address, ", ",
                          time(waited, options.join_timeout));
    }
    return absl::StrCat(who, " waits for ", response.missing(), ": ",
                        response.world_size() - response.missing_count(), " of ",
                        response.world_size(), " have joined at ", address, ", ",
                        time(waited, options.join_timeout));
  }

  Rank rank() const override { return Rank(member_.rank()); }
  Epoch epoch() const override { return Epoch(member_.epoch()); }
  MemberId member() const override {
    return {member_.job(), epoch(), rank(), Incarnation(member_.incarnation())};
  }
  const std::vector<std::string>& addresses() const override { return addresses_; }

  absl::Status Barrier(const std::string& id, absl::Duration timeout,
                       const std::vector<Rank>& participants) override {
    pb::BarrierRequest request;
    *request.mutable_member() = member_;
    request.set_id(id);
    for (Rank rank : participants) request.add_participants(rank.value());
    {
      MutexLock lock(&mutex_);
      request.set_counter(passes_[id]);
    }
    const Deadline give_up = After(timeout);
    pb::BarrierResponse response;
    RZ_RETURN_IF_ERROR(connection_->Call(
        Deadline(give_up.at() + limits::kRpcTimeout),
        [&](Connection::Stub& stub, grpc::ClientContext* context) {
          const absl::Duration left = give_up.Remaining(*Clock::Steady());
          request.set_timeout_ms(std::max<int64_t>(1, absl::ToInt64Milliseconds(left)));
          return stub.Barrier(context, request, &response);
        }));
    MutexLock lock(&mutex_);
    ++passes_[id];
    return absl::OkStatus();
  }

  absl::Status ReportFailure(Rank failed, const std::string& detail) override {
    pb::ReportFailureRequest request;
    request.set_job(member_.job());
    request.set_epoch(member_.epoch());
    request.set_rank(failed.value());
    const bool self = failed.value() == member_.rank();
    request.set_kind(self ? pb::FAILURE_KIND_SELF : pb::FAILURE_KIND_PEER);
    request.set_detail(OneLine(detail));
    *request.mutable_reporter() = member_;
    pb::ReportFailureResponse response;
    {
      MutexLock lock(&mutex_);
      failed_ |= self;
      if (!watching_ && !verdict_.has_value()) {
        return absl::UnavailableError(
            absl::StrCat("the rendezvous at ", connection_->address(), " is lost"));
      }
    }
    return connection_->Call(After(limits::kRpcTimeout),
                             [&](Connection::Stub& stub, grpc::ClientContext* context) {
                               return stub.ReportFailure(context, request, &response);
                             });
  }

  absl::Status Leave() override { return LeaveWithin(limits::kRpcTimeout); }

  void SetVerdictCallback(std::function<void(const absl::Status&)> callback) override {
    absl::Status known;
    {
      MutexLock lock(&mutex_);
      if (!verdict_.has_value()) {
        callback_ = std::move(callback);
        return;
      }
      known = *verdict_;
    }
    callback(known);
  }

  std::optional<absl::Status> WaitForVerdict(absl::Duration timeout) override {
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, timeout, [this] { return verdict_.has_value(); });
    return verdict_;
  }

  std::optional<absl::Status> AskForVerdict(absl::Duration timeout) override {
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, timeout, [this] { return verdict_.has_value() || !watching_; });
    return verdict_;
  }

 private:
  absl::Status ReadAddresses(const pb::JoinResponse& first) {
    addresses_.assign(first.addresses().begin(), first.addresses().end());
    const auto world_size = static_cast<size_t>(first.world_size());
    while (addresses_.size() < world_size) {
      pb::PeersRequest request;
      *request.mutable_member() = member_;
      request.set_first_rank(static_cast<int32_t>(addresses_.size()));
      pb::PeersResponse page;
      RZ_RETURN_IF_ERROR(connection_->Call(
          After(limits::kRpcTimeout), [&](Connection::Stub& stub, grpc::ClientContext* context) {
            return stub.Peers(context, request, &page);
          }));
      if (page.addresses().empty()) break;
      addresses_.insert(addresses_.end(), page.addresses().begin(), page.addresses().end());
    }
    if (addresses_.size() == world_size) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("the rendezvous gave ", addresses_.size(),
                                            " addresses for a world of ", world_size));
  }

  absl::Status LeaveWithin(absl::Duration timeout) {
    bool failed = false;
    {
      MutexLock lock(&mutex_);
      if (verdict_.has_value() && lost_) return *verdict_;
      if (left_) return absl::OkStatus();
      failed = verdict_.has_value();
    }
    pb::LeaveRequest request;
    *request.mutable_member() = member_;
    pb::LeaveResponse response;
    const absl::Status status =
        connection_->Call(After(failed ? std::min(timeout, kLastWords) : timeout),
                          [&](Connection::Stub& stub, grpc::ClientContext* context) {
                            return stub.Leave(context, request, &response);
                          });
    // After a failure it is for those alone that would wait for this rank to rebuild the job.
    if (!failed) RZ_RETURN_IF_ERROR(status);
    MutexLock lock(&mutex_);
    left_ = true;
    return absl::OkStatus();
  }

  // The watcher thread: ends with the verdict, with Leave, or with Stop.
  void WatchForVerdict() {
    pb::WatchRequest request;
    *request.mutable_member() = member_;
    pb::WatchResponse response;
    const absl::Status status = connection_->Watch(request, &response, [this](bool open) {
      if (!open && rank_0_serves_) return;  // it does not come back: the verdict follows
      if (!open) {
        Log(LogLevel::kWarning, "the rendezvous at ", connection_->address(),
            " is lost: this rank goes on, and fails unless it comes back in time");
      }
      MutexLock lock(&mutex_);
      watching_ = open;
      changed_.NotifyAll();
    });
    if (status.code() == absl::StatusCode::kCancelled) return;
    if (status.ok()) {
      if (response.has_verdict()) {
        SetVerdict(absl::UnavailableError(response.verdict().message()), /*lost=*/false);
      }
      return;
    }
    SetVerdict(
        absl::UnavailableError(
            rank_0_serves_ ? absl::StrCat("rank 0 has ended: the rendezvous at ",
                                          connection_->address(), ", which it served, is gone")
                           : absl::StrCat("rank ", member_.rank(), " lost the rendezvous at ",
                                          connection_->address(), ": ", status.message())),
        /*lost=*/true);
  }

  // `lost`: this client's own, as the server cannot be asked.
  void SetVerdict(const absl::Status& verdict, bool lost) {
    std::function<void(const absl::Status&)> callback;
    {
      MutexLock lock(&mutex_);
      verdict_ = verdict;
      lost_ = lost;
      changed_.NotifyAll();
      callback = std::move(callback_);
    }
    if (callback != nullptr) callback(verdict);
  }

  const std::unique_ptr<Connection> connection_;
  const bool rank_0_serves_;
  pb::Member member_;  // constant once joined, as are the addresses
  std::vector<std::string> addresses_;
  std::thread watcher_;

  Mutex mutex_;
  CondVar changed_;                                // watching_ or verdict_
  bool watching_ ABSL_GUARDED_BY(mutex_) = false;  // the server holds the Watch of this rank
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;                    // has reported its own failure
  std::map<std::string, int64_t> passes_ ABSL_GUARDED_BY(mutex_);  // of barriers, by id
  std::optional<absl::Status> verdict_ ABSL_GUARDED_BY(mutex_);
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;  // why there is a verdict
  std::function<void(const absl::Status&)> callback_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<RendezvousClient>> RendezvousClient::Join(
    const RendezvousClientOptions& options) {
  RZ_ASSIGN_OR_RETURN(
      std::unique_ptr<Connection> connection,
      Connection::Create(options.address, options.token_file, options.connect_timeout,
                         options.rank_0_serves ? kRank0Serves : Connection::kStartOne));
  auto client = std::make_unique<GrpcClient>(std::move(connection), options.rank_0_serves);
  RZ_RETURN_IF_ERROR(client->JoinJob(options));
  return std::unique_ptr<RendezvousClient>(std::move(client));
}

absl::StatusOr<std::optional<Verdict>> ReportEndedProcess(const std::string& address,
                                                          const std::string& token_file,
                                                          const FailureReport& report) {
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                      Connection::Create(address, token_file, kReportConnectTimeout));
  pb::ReportFailureRequest request;
  request.set_job(report.job);
  request.set_rank(report.rank.value());
  request.set_kind(report.kind == FailureKind::kExited ? pb::FAILURE_KIND_EXITED
                                                       : pb::FAILURE_KIND_ENDED);
  request.set_detail(OneLine(report.detail));
  request.set_launch(report.launch.value());
  pb::ReportFailureResponse response;
  RZ_RETURN_IF_ERROR(connection->Call(After(limits::kRpcTimeout),
                                      [&](Connection::Stub& stub, grpc::ClientContext* context) {
                                        return stub.ReportFailure(context, request, &response);
                                      }));
  return ReadVerdict(response.has_verdict(), response.verdict());
}

}  // namespace rz
