// Who a process is among those that mpirun, srun or torchrun has started, and where they can meet.
// Pure: the environment goes in, plain values come out.
#ifndef RINGZERO_RUNTIME_LAUNCH_LAUNCHED_RANK_H_
#define RINGZERO_RUNTIME_LAUNCH_LAUNCHED_RANK_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/launch/variables.h"

namespace rz {

// Where the ranks of a launcher find each other; rank 0 serves the rendezvous there.
struct Meeting {
  // HOST:PORT where rank 0 is found; empty: a socket file of this host (see socket_place.h).
  std::string address;
  std::string listen;     // HOST:PORT on which rank 0 listens; empty: `address`
  std::string job;        // which job of that server; empty: the default
  bool insecure = false;  // other machines reach it; a token file is given

  // Of a socket file. What the launcher sets for its ranks and does not have itself, and what tells
  // runs of the same launcher's process apart.
  std::string rank_variable;
  std::string run;
};

struct LaunchedRank {
  std::string launcher;  // for messages: "Open MPI", "PMI", "Slurm", "torchrun"
  int rank = 0;
  int world_size = 1;
  std::optional<int> local_rank;

  // Of a world of more than one. Otherwise, or where they cannot meet by themselves:
  //   InvalidArgument  why RZ_RENDEZVOUS is needed, and how to have one
  absl::StatusOr<Meeting> meeting = absl::InvalidArgumentError("a world of one meets nobody");
};

// Asked in this order, the nearest to the process first: torchrun's agent (TORCHELASTIC_RUN_ID; it
// may run under any of the others), Open MPI, PMI, Slurm (within a step), and variables such as
// torchrun's that were set by hand. Nothing where none of them started this process.
//   InvalidArgument  a variable that is missing beside the others, is no number, or is out of
//                    range; the message names it, what was expected and what was found
absl::StatusOr<std::optional<LaunchedRank>> FindLaunchedRank(const GetVariable& get);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_LAUNCH_LAUNCHED_RANK_H_
