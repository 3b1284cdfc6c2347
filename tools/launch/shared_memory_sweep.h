// Removes what a rank that was killed at a bad moment leaves in shared memory.
#ifndef RINGZERO_TOOLS_LAUNCH_SHARED_MEMORY_SWEEP_H_
#define RINGZERO_TOOLS_LAUNCH_SHARED_MEMORY_SWEEP_H_

#include <ctime>
#include <string>

namespace rz {

// UCX 1.13 makes a file /dev/shm/ucx_shm_posix_RANDOM of some megabytes, fills it, and removes its
// name: a process killed in between leaves it. The name does not say whose it was. So this removes
// the files of that name in `directory` that are this user's, were last written at `since` or
// later, and that no process has open or mapped, in whatever container: the kernel says so by
// granting a write lease. Returns how many.
int SweepSharedMemory(const std::string& directory, std::time_t since);

}  // namespace rz

#endif  // RINGZERO_TOOLS_LAUNCH_SHARED_MEMORY_SWEEP_H_
