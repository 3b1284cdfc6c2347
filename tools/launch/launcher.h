// Launcher: runs the ranks of a job on this host until all have ended. What rz_run does, and what a
// tool that launches itself uses.
#ifndef RINGZERO_TOOLS_LAUNCH_LAUNCHER_H_
#define RINGZERO_TOOLS_LAUNCH_LAUNCHER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace rz {

struct LaunchOptions {
  std::string program = "rz_run";    // begins the launcher's own lines
  std::vector<std::string> command;  // program and arguments, looked up in PATH
  bool prefix_output = true;  // "[rank] " before each line a rank writes, where it is not alone
  int ranks = 1;              // on this host
  int nodes = 1;              // hosts, each with as many ranks
  int node_rank = 0;
  std::string rendezvous;  // HOST:PORT; empty: a server of the launcher's own, on loopback
  std::string job;         // empty: "default", or a random name where the server is our own
  std::string token_file;
  // Handed on to the ranks where they are given: see JobEnvironment.
  std::optional<absl::Duration> join_timeout;
  std::optional<absl::Duration> connect_timeout;
  // Ranks that may go on by themselves after others have failed (rz_comm_rebuild), on one host; 0:
  // none, a failure ends all.
  int min_ranks = 0;
  // How long the others may take to stop by themselves after a failure, then after SIGTERM.
  absl::Duration grace = absl::Seconds(5);
};

// Runs the job and returns the exit code (exit_code.h): 0 where every rank returned 0, or min_ranks
// and all of those that went on after failures; otherwise
// that of the first rank that failed (128 + N for signal N), 127 or 126 where the command cannot be
// run, 1 where the launcher itself fails or cannot pass on what the ranks write. Says why in one
// line on standard error. No process is left behind. To be called from the main thread of a process
// that has no other thread yet; changes the signal mask for good.
int Launch(const LaunchOptions& options);

}  // namespace rz

#endif  // RINGZERO_TOOLS_LAUNCH_LAUNCHER_H_
