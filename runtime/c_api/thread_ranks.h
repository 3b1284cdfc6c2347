// Ranks as threads of a test: each joins a job at a rendezvous server of this process, through the
// C interface.
#ifndef RINGZERO_RUNTIME_C_API_THREAD_RANKS_H_
#define RINGZERO_RUNTIME_C_API_THREAD_RANKS_H_

#include <functional>

#include "runtime/c_api/c_api.h"

namespace rz::c_api {

// Runs `body` in `world` threads, each of which is a rank of one job, and waits for all. A rank
// finalizes its job afterwards. Failures of joining are failures of the test.
void RunRanks(int world, const std::function<void(int rank, rz_job_t* job)>& body);

}  // namespace rz::c_api

#endif  // RINGZERO_RUNTIME_C_API_THREAD_RANKS_H_
