// 1. Fork all ranks, each held at a gate, and the guard: while there is one thread and no gRPC.
// 2. Start the rendezvous, unless one is named, and open the gates with the environment.
// 3. Move output, input and signals until every rank has ended. Each rank that ends, up to the
// first
//    that fails, is told to the rendezvous, so that the others do not wait for it; after a failure
//    they have the grace to stop by themselves, then get SIGTERM, and after another SIGKILL. With
//    min_ranks, failures that leave as many ranks are told and otherwise let be. A
//    signal to the launcher goes to all ranks, with SIGKILL after the grace or at the second
//    signal.
// 4. Whatever a rank leaves in its process group is killed before the rank is reaped, while the
//    group's number cannot be another's. What a killed rank left in shared memory is removed.
#include "tools/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/rendezvous/server.h"
#include "tools/exit_code.h"
#include "tools/launch/ending_reporter.h"
#include "tools/launch/guard.h"
#include "tools/launch/output_relay.h"
#include "tools/launch/process.h"
#include "tools/launch/shared_memory_sweep.h"
#include "tools/launch/stdin_relay.h"

namespace rz {
namespace {

constexpr char kSharedMemoryDirectory[] = "/dev/shm";
constexpr int kForwardedSignals[] = {SIGUSR1, SIGUSR2};
constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// Unguessable, so that another user of this host cannot join the job on its loopback port.
std::string RandomJobName() {
  std::random_device source;
  std::string name = "rz_run-";
  for (int i = 0; i < 4; ++i) absl::StrAppend(&name, absl::StrFormat("%08x", source()));
  return name;
}

struct LocalRank {
  int rank = 0;
  std::optional<GatedProcess> process;
  std::optional<int> wait_status;  // once it has ended

  bool running() const { return process.has_value() && !wait_status.has_value(); }
  bool failed() const { return wait_status.has_value() && ExitCodeOf(*wait_status) != 0; }
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options),
        world_size_(options.ranks * options.nodes),
        outputs_(options.program, options.prefix_output),
        ranks_(options.ranks) {}

  ~Launcher() {
    SignalAll(SIGKILL);
    for (LocalRank& rank : ranks_) {
      if (rank.running()) Reap(rank);
    }
  }

  int Run() {
    if (const absl::Status status = Start(); !status.ok()) {
      outputs_.Say(absl::StrCat(status.message()));
      return kExitFailure;
    }
    if (exec_error_ != 0) {
      outputs_.Say(
          absl::StrCat("cannot run '", options_.command[0], "': ", std::strerror(exec_error_)));
      return exec_error_ == EACCES ? kExitNotExecutable : kExitCannotRun;
    }
    while (std::any_of(ranks_.begin(), ranks_.end(),
                       [](const LocalRank& rank) { return rank.running(); })) {
      WaitAndMove();
      ActOnTime();
    }
    outputs_.Finish();
    if (std::any_of(ranks_.begin(), ranks_.end(),
                    [](const LocalRank& rank) { return WIFSIGNALED(*rank.wait_status); })) {
      SweepSharedMemory(kSharedMemoryDirectory, started_);
    }
    verdict_ = reporter_->Finish();
    return outputs_.WithWriteErrors(Conclude());
  }

 private:
  // Steps 1 and 2.
  absl::Status Start() {
    BlockSignals();
    std::vector<pid_t> groups;
    for (int i = 0; i < options_.ranks; ++i) {
      ranks_[i].rank = options_.node_rank * options_.ranks + i;
      RZ_RETURN_IF_ERROR(ForkRank(ranks_[i]));
      groups.push_back(ranks_[i].process->pid());
    }
    RZ_ASSIGN_OR_RETURN(Guard guard, Guard::Fork(groups));
    guard_.emplace(std::move(guard));
    RZ_RETURN_IF_ERROR(StartRendezvous());
    for (int i = 0; i < options_.ranks; ++i) ranks_[i].process->Release(Environment(i));
    for (LocalRank& rank : ranks_) {
      if (const int error = rank.process->WaitForExec(); error != 0) exec_error_ = error;
    }
    return absl::OkStatus();
  }

  void BlockSignals() {
    signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (int number : kStopSignals) sigaddset(&set, number);
    for (int number : kForwardedSignals) sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = ScopedFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  absl::Status ForkRank(LocalRank& rank) {
    GatedProcess::Streams streams{.in = -1, .out = STDOUT_FILENO, .error = STDERR_FILENO};
    Pipe input;
    if (rank.rank == 0 && isatty(STDIN_FILENO)) {
      RZ_ASSIGN_OR_RETURN(input, Pipe::Create());
      streams.in = input.read.get();
    } else if (rank.rank == 0) {
      streams.in = STDIN_FILENO;
    }
    Pipe pipes[2];
    // A rank alone writes straight to our outputs: nothing to tell apart.
    if (world_size_ > 1) {
      for (int target = 0; target < 2; ++target) {
        RZ_ASSIGN_OR_RETURN(pipes[target], Pipe::Create());
        fcntl(pipes[target].read.get(), F_SETFL, O_NONBLOCK);
      }
      streams.out = pipes[0].write.get();
      streams.error = pipes[1].write.get();
    }
    RZ_ASSIGN_OR_RETURN(GatedProcess process, GatedProcess::Fork(options_.command, streams));
    rank.process.emplace(std::move(process));
    if (input.write.get() >= 0) {
      input_ = std::make_unique<StdinRelay>(STDIN_FILENO, std::move(input.write));
    }
    for (int target = 0; target < 2 && world_size_ > 1; ++target) {
      outputs_.Add(rank.rank, target, std::move(pipes[target].read));
    }
    return absl::OkStatus();
  }

  absl::Status StartRendezvous() {
    job_ = options_.job;
    address_ = options_.rendezvous;
    if (!address_.empty()) {
      if (job_.empty()) job_ = "default";
    } else {
      if (job_.empty()) job_ = RandomJobName();
      RendezvousServerOptions server;
      server.token_file = options_.token_file;
      RZ_ASSIGN_OR_RETURN(server_, RendezvousServer::Start(server));
      address_ = server_->address();
    }
    reporter_.emplace(server_ == nullptr ? nullptr : server_->service(), address_,
                      options_.token_file, job_);
    return absl::OkStatus();
  }

  std::vector<std::pair<std::string, std::string>> Environment(int local_rank) const {
    std::vector<std::pair<std::string, std::string>> environment = {
        {"RZ_RENDEZVOUS", address_},
        {"RZ_JOB", job_},
        {"RZ_WORLD_SIZE", absl::StrCat(world_size_)},
        {"RZ_RANK", absl::StrCat(ranks_[local_rank].rank)},
        {"RZ_LOCAL_RANK", absl::StrCat(local_rank)},
        {"RZ_LAUNCH", absl::StrCat(reporter_->launch().value())}};
    const auto add_time = [&](const char* name, const std::optional<absl::Duration>& time) {
      if (time.has_value()) environment.emplace_back(name, absl::FormatDuration(*time));
    };
    add_time("RZ_JOIN_TIMEOUT", options_.join_timeout);
    add_time("RZ_CONNECT_TIMEOUT", options_.connect_timeout);
    if (!options_.token_file.empty()) {
      environment.emplace_back("RZ_TOKEN_FILE",
                               std::filesystem::absolute(options_.token_file).string());
    }
    return environment;
  }

  // Step 3, once: sleeps until something happens and deals with it.
  void WaitAndMove() {
    std::vector<pollfd> waits = {{signals_.get(), POLLIN, 0}};
    if (input_ != nullptr) {
      waits.push_back({input_->readable(), POLLIN, 0});
      waits.push_back({input_->writable(), POLLOUT, 0});
    }
    outputs_.AddToPoll(&waits);
    const absl::Duration left = std::min(terminate_at_, kill_at_) - clock_.Now();
    const int timeout =
        left == absl::InfiniteDuration()
            ? -1
            : static_cast<int>(std::max<int64_t>(
                  0, absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
    if (poll(waits.data(), waits.size(), timeout) < 0) return;
    if (input_ != nullptr) input_->Move();
    outputs_.Move();
    TakeSignals();
  }

  void TakeSignals() {
    std::vector<pid_t> ended;
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const int number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) {
        ended.push_back(static_cast<pid_t>(info.ssi_pid));
      } else if (std::find(std::begin(kForwardedSignals), std::end(kForwardedSignals), number) !=
                 std::end(kForwardedSignals)) {
        SignalAll(number);
      } else {
        Stop(number);
      }
    }
    // Signals of one kind that come together are merged, and keep who was first: the one to blame.
    for (pid_t pid : ended) {
      for (LocalRank& rank : ranks_) {
        if (rank.process->pid() == pid) ReapIfEnded(rank);
      }
    }
    for (LocalRank& rank : ranks_) ReapIfEnded(rank);
  }

  void ReapIfEnded(LocalRank& rank) {
    if (!rank.running() || !HasEnded(rank)) return;
    Reap(rank);
    if (first_failure_ != nullptr || stopped_by_ != 0) return;
    reporter_->Report(Rank(rank.rank), !rank.failed(), FormatWaitStatus(*rank.wait_status));
    if (!rank.failed() || OthersGoOn(rank)) return;
    first_failure_ = &rank;
    terminate_at_ = clock_.Now() + options_.grace;
  }

  // After the failure of `failed`.
  bool OthersGoOn(const LocalRank& failed) {
    const auto left = std::count_if(ranks_.begin(), ranks_.end(),
                                    [](const LocalRank& rank) { return !rank.failed(); });
    if (options_.min_ranks == 0 || left < options_.min_ranks) return false;
    outputs_.Say(absl::StrCat("rank ", failed.rank,
                              " ended: ", FormatWaitStatus(*failed.wait_status), "; ", left, " of ",
                              ranks_.size(), " go on"));
    return true;
  }

  void Stop(int number) {
    if (stopped_by_ != 0) {
      SignalAll(SIGKILL);
      return;
    }
    stopped_by_ = number;
    SignalAll(number);
    kill_at_ = clock_.Now() + options_.grace;
  }

  static bool HasEnded(const LocalRank& rank) {
    siginfo_t info{};
    return waitid(P_PID, rank.process->pid(), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  }

  // Step 4; waits for the rank where it has not ended.
  void Reap(LocalRank& rank) {
    const pid_t pid = rank.process->pid();
    siginfo_t info{};
    while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    kill(-pid, SIGKILL);
    if (guard_.has_value()) guard_->Forget(pid);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    rank.wait_status = status;
  }

  void ActOnTime() {
    const absl::Duration now = clock_.Now();
    if (now >= terminate_at_) {
      terminate_at_ = absl::InfiniteDuration();
      kill_at_ = std::min(kill_at_, now + options_.grace);
      SignalAll(SIGTERM);
      SignalAll(SIGCONT);  // a stopped process does not see SIGTERM
    }
    if (now >= kill_at_) {
      kill_at_ = absl::InfiniteDuration();
      SignalAll(SIGKILL);
    }
  }

  void SignalAll(int number) {
    for (const LocalRank& rank : ranks_) {
      if (rank.running()) kill(-rank.process->pid(), number);
    }
  }

  int Conclude() {
    const bool any_failed = std::any_of(ranks_.begin(), ranks_.end(),
                                        [](const LocalRank& rank) { return rank.failed(); });
    if (stopped_by_ != 0) {
      outputs_.Say(
          absl::StrCat("stopped by signal ", stopped_by_, " (", sigdescr_np(stopped_by_), ")"));
      return any_failed ? kExitSignal + stopped_by_ : kExitOk;
    }
    if (first_failure_ == nullptr) return kExitOk;
    // The rank that the verdict names may have taken longer to end than one that followed it.
    const LocalRank* failed = first_failure_;
    // Where ranks were given anew, it has other numbers.
    const bool same_numbers = options_.min_ranks == 0;
    for (const LocalRank& rank : ranks_) {
      if (same_numbers && verdict_.has_value() && Rank(rank.rank) == verdict_->rank &&
          rank.failed()) {
        failed = &rank;
      }
    }
    const std::string line =
        absl::StrCat("rank ", failed->rank, " ended: ", FormatWaitStatus(*failed->wait_status));
    const bool known_better = same_numbers && verdict_.has_value() && verdict_->message != line;
    outputs_.Say(known_better ? absl::StrCat(line, " (", verdict_->message, ")") : line);
    return ExitCodeOf(*failed->wait_status);
  }

  const LaunchOptions& options_;
  const int world_size_;
  const Clock& clock_ = *Clock::Steady();
  // As files have it, whose clock may lag behind.
  const std::time_t started_ = std::time(nullptr) - 1;
  OutputRelay outputs_;
  std::vector<LocalRank> ranks_;
  std::optional<Guard> guard_;
  ScopedFd signals_;
  std::unique_ptr<StdinRelay> input_;
  std::unique_ptr<RendezvousServer> server_;
  std::optional<EndingReporter> reporter_;  // ends before the server
  std::string address_;
  std::string job_;
  int exec_error_ = 0;
  int stopped_by_ = 0;
  const LocalRank* first_failure_ = nullptr;
  std::optional<Verdict> verdict_;  // once every rank has ended
  absl::Duration terminate_at_ = absl::InfiniteDuration();
  absl::Duration kill_at_ = absl::InfiniteDuration();
};

}  // namespace

int Launch(const LaunchOptions& options) { return Launcher(options).Run(); }

}  // namespace rz
