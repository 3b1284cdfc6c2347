#include "collectives/testing/sim_calls.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz::testing {

void RunAndCheck(SimJob& job, JobCalls& calls) {
  ASSERT_THAT(job.Run(static_cast<int>(calls.size()),
                      [&](int rank, int i) { return calls[i][rank]->Start(job.comm(rank)); }),
              IsOk());
  for (int r = 0; r < job.size(); ++r) {
    ASSERT_THAT(job.results()[r], IsOk()) << "rank " << r;
    for (size_t i = 0; i < calls.size(); ++i) {
      calls[i][r]->TakeBack();
      ASSERT_EQ(calls[i][r]->Check(), "") << "rank " << r << ", operation " << i;
    }
  }
}

}  // namespace rz::testing
