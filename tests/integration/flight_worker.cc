// A rank for the tests of flight records: joins the job of its environment over UCX, makes forty
// calls like all others, then does as it is told. SIGUSR1 lets ranks that wait go on.
//   flight_worker differ     the last rank makes another call #41 than the rest
//   flight_worker die        the last rank kills itself instead of call #41, at a SIGUSR1
//   flight_worker late       the last rank makes call #41 only at a SIGUSR1
//   flight_worker stuck      in call #41 the last rank waits for the one before it, which calls at
//                            the first SIGUSR1; the last one does not move again until the second
//   flight_worker run        all call on and on until SIGUSR1
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/communicator.h"
#include "collectives/flight/flight_recorder.h"
#include "runtime/base/status_macros.h"
#include "runtime/job.h"
#include "runtime/transport/ucx/ucx_transport.h"

namespace rz {
namespace {

constexpr int kCallsBefore = 40;
constexpr int64_t kCount = 1000;
constexpr absl::Duration kBeyondTheTest = absl::Hours(1);

std::atomic<int> signals{0};

void AwaitSignal(int number) {
  while (signals < number) usleep(1000);
}

class Worker {
 public:
  explicit Worker(Communicator* comm)
      : comm_(*comm), send_(kCount, 1), recv_(kCount * static_cast<size_t>(comm->world_size())) {}

  absl::Status Do(std::string_view task) {
    for (int i = 0; i < kCallsBefore; ++i) RZ_RETURN_IF_ERROR(Sum());
    if (task == "differ") return is_last() ? Gather() : Sum();
    if (task == "die") return Die();
    if (task == "late") return BeLate();
    if (task == "stuck") return BeStuck();
    if (task == "run") return Run();
    return absl::InvalidArgumentError(absl::StrCat("no task '", std::string(task), "'"));
  }

 private:
  bool is_last() const { return rank() == comm_.world_size() - 1; }
  int rank() const { return comm_.rank().value(); }

  void Say(const std::string& what) {
    std::cout << absl::StrCat("rank ", rank(), " ", what, "\n") << std::flush;
  }

  absl::Status Sum() {
    return comm_.AllReduce(send_.data(), recv_.data(), kCount, DType::kFloat32, ReduceOp::kSum);
  }

  absl::StatusOr<Operation> StartGather() {
    return comm_.StartAllGather(send_.data(), recv_.data(), kCount * comm_.world_size(),
                                DType::kFloat32);
  }

  absl::StatusOr<Operation> StartScatter() {
    return comm_.StartReduceScatter(send_.data(), recv_.data(), kCount, DType::kFloat32,
                                    ReduceOp::kSum);
  }

  absl::Status Gather() {
    RZ_ASSIGN_OR_RETURN(Operation operation, StartGather());
    Say("called all_gather");
    return operation.Wait();
  }

  absl::Status Die() {
    if (is_last()) {
      // The others may still need it for the call before.
      AwaitSignal(1);
      kill(getpid(), SIGKILL);
    }
    return Gather();
  }

  absl::Status BeLate() {
    if (is_last()) {
      Say("waits");
      AwaitSignal(1);
    }
    return Gather();
  }

  absl::Status BeStuck() {
    if (rank() == comm_.world_size() - 2) AwaitSignal(1);
    RZ_ASSIGN_OR_RETURN(Operation operation, StartScatter());
    if (is_last()) {
      // Moved until it waits for nothing but the rank before.
      FlightPosition position;
      while (position.peer != rank() - 1) {
        operation.Poll();
        position = comm_.FlightRecord().entries.back().position;
      }
      Say("waits");
      AwaitSignal(2);
    }
    RZ_RETURN_IF_ERROR(operation.Wait());
    return Gather();
  }

  absl::Status Run() {
    Say("runs");
    for (float stop = 0; stop == 0;) {
      RZ_RETURN_IF_ERROR(Sum());
      for (int64_t i = 0; i < kCount; ++i) {
        if (recv_[i] != static_cast<float>(comm_.world_size())) {
          return absl::DataLossError("a sum is wrong");
        }
      }
      stop = signals > 0 ? 1 : 0;
      RZ_RETURN_IF_ERROR(comm_.AllReduce(&stop, &stop, 1, DType::kFloat32, ReduceOp::kMax));
    }
    return absl::OkStatus();
  }

  Communicator& comm_;
  std::vector<float> send_;
  std::vector<float> recv_;
};

absl::Status JoinAndWork(std::string_view task) {
  RZ_ASSIGN_OR_RETURN(const JobEnvironment environment, JobEnvironment::FromProcess());
  RZ_ASSIGN_OR_RETURN(auto transport, CreateUcxTransport({}));
  RZ_ASSIGN_OR_RETURN(auto job, Job::Join(environment, std::move(transport), {}));
  CommunicatorOptions options;
  options.algorithms = "reduce_scatter:pairwise";
  options.operation_timeout = kBeyondTheTest;
  RZ_ASSIGN_OR_RETURN(const auto comm, Communicator::Create(job->transport(), options));
  if (const absl::Status status = Worker(comm.get()).Do(task); !status.ok()) {
    return job->Verdict(status);
  }
  return job->Leave();
}

int Main(int argc, char** argv) {
  signal(SIGUSR1, [](int) { ++signals; });
  const absl::Status status = JoinAndWork(argc > 1 ? argv[1] : "");
  if (status.ok()) return 0;
  std::cerr << absl::StrCat("flight_worker: ", status.message(), "\n");
  return 1;
}

}  // namespace
}  // namespace rz

int main(int argc, char** argv) { return rz::Main(argc, argv); }
