// rz_run: starts the ranks of a job on this host.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/job.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/limits.h"
#include "tools/flag_set.h"
#include "tools/launch/launcher.h"
#include "tools/rank_environment.h"

namespace rz {
namespace {

int Main(int argc, char** argv) {
  LaunchOptions options;
  int64_t ranks = 1, nodes = 1, node_rank = 0, min_ranks = 0;
  absl::Duration join_timeout = JobEnvironment().join_timeout;
  absl::Duration connect_timeout = JobEnvironment().connect_timeout;
  FlagSet flags("rz_run", "starts the ranks of a job on this host and waits for them");
  const IntRange world = {1, limits::kMaxWorldSize};
  flags.Int("ranks", &ranks, world, "ranks on this host", {"n", "np"});
  flags.Int("nodes", &nodes, world, "hosts of the job, each with as many ranks");
  flags.Int("node-rank", &node_rank, {0, limits::kMaxWorldSize - 1},
            "which of the hosts this is, from 0");
  flags.String("rendezvous", &options.rendezvous,
               "HOST:PORT of a running rz_rendezvous; without it rz_run is the rendezvous");
  flags.String("job", &options.job, "name of the job at the rendezvous, the same on all hosts");
  flags.String("token-file", &options.token_file, "the rendezvous's token, mode 0600");
  flags.Int("min-ranks", &min_ranks, {0, limits::kMaxWorldSize},
            "go on after failures while as many ranks are left, for programs that rebuild; 0: a "
            "failure ends all");
  flags.Duration("grace", &options.grace, {absl::ZeroDuration(), absl::Hours(1)},
                 "time the others get to stop after a failure, and again after SIGTERM");
  const DurationRange timeouts = {JobEnvironment::kShortestTimeout,
                                  JobEnvironment::kLongestTimeout};
  flags.Duration("join-timeout", &join_timeout, timeouts,
                 "how long a rank waits for the others to come (their RZ_JOIN_TIMEOUT)");
  flags.Duration("connect-timeout", &connect_timeout, timeouts,
                 "how long a rank tries to reach the rendezvous (their RZ_CONNECT_TIMEOUT)");
  flags.Rest("PROGRAM ARGS");
  flags.Description(
      "Every rank is told who it is and where the others are (RZ_RENDEZVOUS, RZ_JOB,\n"
      "RZ_WORLD_SIZE, RZ_RANK, RZ_LOCAL_RANK); lines of its output begin with its rank; signals\n"
      "are passed on. When a rank fails the others are stopped, and standard error says which\n"
      "was the first and why.");
  DescribeLogEnvironment(&flags);
  flags.Example("rz_run -n 4 -- rz_train --steps 20");
  flags.Example("rz_run -n 2 --nodes 2 --node-rank 0 --rendezvous 10.0.0.1:29400 -- ./program");
  flags.ExitCodes(
      "0 every rank returned 0, or --min-ranks of them or more did; otherwise the first failing "
      "rank's own, 128 + N where signal N "
      "ended it;\n127 or 126 PROGRAM cannot be run, 1 rz_run itself failed, 2 wrong usage");
  flags.ParseOrExit(argc, argv);

  options.command = flags.rest();
  if (options.command.empty()) flags.UsageError("no program: put -- PROGRAM ARGS at the end");
  if (ranks * nodes > limits::kMaxWorldSize) {
    flags.UsageError(absl::StrCat(nodes, " hosts with ", ranks, " ranks: a job has 1 to ",
                                  limits::kMaxWorldSize, " ranks"));
  }
  if (node_rank >= nodes) {
    flags.UsageError(absl::StrCat("--node-rank ", node_rank, " is not within 0 to ", nodes - 1));
  }
  if (min_ranks > ranks || (min_ranks > 0 && nodes > 1)) {
    flags.UsageError(absl::StrCat("--min-ranks ", min_ranks, " is within 0 to the ", ranks,
                                  " ranks of -n, on one host"));
  }
  if (nodes > 1 && options.rendezvous.empty()) {
    flags.UsageError("several hosts meet at a --rendezvous HOST:PORT: start rz_rendezvous there");
  }
  if (!options.rendezvous.empty()) {
    if (const auto endpoint = ParseEndpoint(options.rendezvous); !endpoint.ok()) {
      flags.UsageError(absl::StrCat("--rendezvous: ", endpoint.status().message()));
    }
  }
  // An environment that says otherwise is the user's, and goes on to the ranks.
  if (flags.WasSet("join-timeout")) options.join_timeout = join_timeout;
  if (flags.WasSet("connect-timeout")) options.connect_timeout = connect_timeout;
  options.ranks = static_cast<int>(ranks);
  options.nodes = static_cast<int>(nodes);
  options.node_rank = static_cast<int>(node_rank);
  options.min_ranks = static_cast<int>(min_ranks);
  return Launch(options);
}

}  // namespace
}  // namespace rz

int main(int argc, char** argv) { return rz::Main(argc, argv); }
