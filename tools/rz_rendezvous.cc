// rz_rendezvous: the rendezvous as a program of its own, for workers that are started by hand or on
// several hosts.
#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "runtime/rendezvous/server.h"
#include "tools/exit_code.h"
#include "tools/flag_set.h"
#include "tools/rank_environment.h"
#include "tools/standard_output.h"

namespace rz {
namespace {

int Main(int argc, char** argv) {
  RendezvousServerOptions options;
  options.listen = "127.0.0.1:29400";
  FlagSet flags("rz_rendezvous", "the place where the ranks of a job find each other");
  flags.String("listen", &options.listen, "HOST:PORT to listen on; port 0 takes a free one");
  flags.String("token-file", &options.token_file,
               "asks workers for the token in this file, mode 0600 (their RZ_TOKEN_FILE)");
  flags.Bool("insecure", &options.insecure,
             "allows an address that other machines can reach, without encryption");
  flags.Description(
      "Ranks join a job by its name, are told their rank and the others' addresses, and hear\n"
      "when one of them fails. Serves any jobs that come, until SIGINT, SIGTERM or SIGHUP. It\n"
      "speaks no TLS: other machines reach it over a private network only.");
  DescribeLogEnvironment(&flags);
  flags.Example("rz_rendezvous --listen 127.0.0.1:29400");
  flags.Example("RZ_RENDEZVOUS=127.0.0.1:29400 RZ_WORLD_SIZE=2 rz_train --steps 20   (twice)");
  flags.Example("RZ_LOG=info rz_rendezvous --listen 0.0.0.0:29400 --insecure --token-file token");
  flags.ParseOrExit(argc, argv);

  // Blocked before any thread starts, so that no thread but this one takes them.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stop_signals, number);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  absl::StatusOr<std::unique_ptr<RendezvousServer>> server = RendezvousServer::Start(options);
  if (!server.ok()) {
    std::cerr << "rz_rendezvous: " << server.status().message() << "\n";
    return server.status().code() == absl::StatusCode::kInvalidArgument ? kExitUsage : kExitFailure;
  }
  std::cout << "rendezvous listens on " << (*server)->address() << "\n";
  // Whoever started it waits for this line.
  if (const absl::Status status = FlushStandardOutput(); !status.ok()) {
    std::cerr << "rz_rendezvous: " << status.message() << "\n";
    return kExitFailure;
  }
  int received = 0;
  sigwait(&stop_signals, &received);
  (*server)->Shutdown();
  return kExitOk;
}

}  // namespace
}  // namespace rz

int main(int argc, char** argv) { return rz::Main(argc, argv); }
