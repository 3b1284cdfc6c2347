// A worker for the launcher's tests: joins the job of its environment and does as it is told.
//   test_worker meet                passes a barrier, prints rank and world, leaves
//   test_worker die-by-signal RANK  that rank kills itself once all have met; the others wait for
//                                   the verdict, print it and exit with 4
//   test_worker fail RANK           that rank reports a failure of its own and exits with 5
//   test_worker wait                prints that it has joined, then waits for the verdict
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "runtime/job.h"
#include "runtime/rendezvous/client.h"

namespace rz {
namespace {

constexpr absl::Duration kGenerous = absl::Seconds(120);

absl::StatusOr<std::unique_ptr<RendezvousClient>> Join() {
  const absl::StatusOr<JobEnvironment> environment = JobEnvironment::FromProcess();
  if (!environment.ok()) return environment.status();
  RendezvousClientOptions options;
  options.address = environment->rendezvous;
  options.job = environment->job;
  options.world_size = environment->world_size;
  if (environment->rank.has_value()) options.wanted_rank = environment->rank->value();
  options.token_file = environment->token_file;
  options.launch = LaunchId(environment->launch);
  options.join_timeout = environment->join_timeout;
  options.connect_timeout = kGenerous;
  return RendezvousClient::Join(options);
}

int WaitForVerdict(RendezvousClient& client) {
  const std::optional<absl::Status> verdict = client.WaitForVerdict(kGenerous);
  if (!verdict.has_value()) return 6;
  std::cout << "verdict: " << verdict->message() << std::endl;
  return 4;
}

int Main(int argc, char** argv) {
  const std::string_view task = argc > 1 ? argv[1] : "";
  absl::StatusOr<std::unique_ptr<RendezvousClient>> client = Join();
  if (!client.ok()) {
    std::cerr << client.status().message() << std::endl;
    return 1;
  }
  if (const absl::Status met = (*client)->Barrier("start", kGenerous, {}); !met.ok()) {
    std::cerr << met.message() << std::endl;
    return 1;
  }
  const bool chosen = argc > 2 && (*client)->rank() == Rank(std::atoi(argv[2]));
  std::cout << "rank " << (*client)->rank() << " of " << (*client)->addresses().size()
            << " has joined" << std::endl;
  if (task == "meet") return (*client)->Leave().ok() ? 0 : 1;
  if (task == "die-by-signal" && chosen) kill(getpid(), SIGKILL);
  if (task == "fail" && chosen) {
    return (*client)->ReportFailure((*client)->rank(), "disk full").ok() ? 5 : 1;
  }
  return WaitForVerdict(**client);
}

}  // namespace
}  // namespace rz

int main(int argc, char** argv) { return rz::Main(argc, argv); }
