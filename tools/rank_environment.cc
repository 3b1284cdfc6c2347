#include "tools/rank_environment.h"

namespace rz {

void DescribeRankEnvironment(FlagSet* flags) {
  flags->Environment("RZ_RENDEZVOUS", "HOST:PORT where the ranks meet");
  flags->Environment("RZ_WORLD_SIZE",
                     "how many ranks the job has; without it mpirun, srun and torchrun say so, and "
                     "otherwise it is a world of one");
  flags->Environment("RZ_RANK", "which of them this is; without it the rendezvous says so");
  flags->Environment("RZ_JOB", "which job of that rendezvous; without it: default");
  flags->Environment("RZ_TOKEN_FILE", "a file with the rendezvous's token, mode 0600");
  flags->Environment("RZ_JOIN_TIMEOUT",
                     "how long the other ranks are waited for, also by a rank 0 that serves the "
                     "rendezvous and is done; without it 300s");
  flags->Environment("RZ_CONNECT_TIMEOUT", "how long the rendezvous is tried; without it 60s");
  flags->Environment("RZ_ALGO", "collective:algorithm,... where --algo is not given");
  flags->Environment("RZ_SIMD", "portable, avx2 or avx512; without it the best there is");
  flags->Environment("RZ_FLIGHT_DIR", "where flight records go on failure and on SIGUSR2");
  DescribeLogEnvironment(flags);
}

void DescribeLogEnvironment(FlagSet* flags) {
  flags->Environment("RZ_LOG", "error, warning, info or debug; without it warning");
}

}  // namespace rz
