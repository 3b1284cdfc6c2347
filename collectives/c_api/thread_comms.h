// Ranks as threads of a test, with a communicator of all of them.
#ifndef RINGZERO_COLLECTIVES_C_API_THREAD_COMMS_H_
#define RINGZERO_COLLECTIVES_C_API_THREAD_COMMS_H_

#include <functional>

#include "collectives/c_api/c_api.h"
#include "gtest/gtest.h"
#include "runtime/c_api/thread_ranks.h"

#define OK(call) EXPECT_EQ(call, RZ_OK) << rz_last_error()

namespace rz::c_api {

// RunRanks, with a communicator that is destroyed afterwards.
inline void RunComms(int world, const std::function<void(int rank, rz_comm_t* comm)>& body,
                     const rz_comm_options_t* options = nullptr) {
  RunRanks(world, [&](int rank, rz_job_t* job) {
    rz_comm_t* comm = nullptr;
    ASSERT_EQ(rz_comm_create(job, options, &comm), RZ_OK) << rz_last_error();
    body(rank, comm);
    OK(rz_comm_destroy(comm));
  });
}

}  // namespace rz::c_api

#endif  // RINGZERO_COLLECTIVES_C_API_THREAD_COMMS_H_
