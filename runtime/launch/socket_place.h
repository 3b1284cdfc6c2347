// The socket file where ranks on one host meet that an mpirun or a Slurm step has started.
//
// 1. A rank goes up the tree of processes to the first that lacks the launcher's variable with this
//    rank's value: the process that has started all ranks of this host (mpirun, hydra_pmi_proxy,
//    slurmstepd), whatever scripts lie between.
// 2. Its number and start time, within their PID namespace, and what the launcher calls the run,
//    name the file: no other job has them, nor had one before.
// 3. The file lies in a folder that this user alone can enter; one that is another's is refused.
// 4. Who serves removes the files of launchers that are gone, which killed ranks have left.
#ifndef RINGZERO_RUNTIME_LAUNCH_SOCKET_PLACE_H_
#define RINGZERO_RUNTIME_LAUNCH_SOCKET_PLACE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "runtime/launch/launched_rank.h"

namespace rz {

// Where processes and temporary files are; a test has places of its own.
struct SocketSurroundings {
  std::string processes = "/proc";
  std::string temporary = "/tmp";
  pid_t self = 0;  // 0: this process
};

// "unix:/tmp/ringzero-1000/...", the same for all ranks of a job. Makes the folder.
//   FailedPrecondition  the launcher's process cannot be seen from here, as in a PID namespace of
//                       each rank's own
//   PermissionDenied    the folder is another user's, or others may enter it
//   Internal            the folder cannot be made; the message has errno
absl::StatusOr<std::string> SocketAddress(const Meeting& meeting, const std::string& rank_value,
                                          const SocketSurroundings& surroundings = {});

// Removes what lies beside the socket of `address` and belongs to launchers that have ended.
void RemoveEndedSockets(const std::string& address, const SocketSurroundings& surroundings = {});

}  // namespace rz

#endif  // RINGZERO_RUNTIME_LAUNCH_SOCKET_PLACE_H_
