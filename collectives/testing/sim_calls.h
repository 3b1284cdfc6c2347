// Random calls carried out by a simulated job and checked.
#ifndef RINGZERO_COLLECTIVES_TESTING_SIM_CALLS_H_
#define RINGZERO_COLLECTIVES_TESTING_SIM_CALLS_H_

#include <memory>
#include <vector>

#include "collectives/testing/collective_case.h"
#include "collectives/testing/sim_job.h"

namespace rz::testing {

// By call, then by rank.
using JobCalls = std::vector<std::vector<std::unique_ptr<RankCall>>>;

// All ranks make all calls, which must leave what they ought to; a failure is a fatal one of the
// test.
void RunAndCheck(SimJob& job, JobCalls& calls);

}  // namespace rz::testing

#endif  // RINGZERO_COLLECTIVES_TESTING_SIM_CALLS_H_
