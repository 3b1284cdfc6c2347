// Ranks as processes that the test itself is the program of: forked, connected over UCX, each runs
// one function and returns a text.
#ifndef RINGZERO_TESTS_INTEGRATION_PROCESS_JOB_H_
#define RINGZERO_TESTS_INTEGRATION_PROCESS_JOB_H_

#include <functional>
#include <string>
#include <vector>

#include "runtime/transport/transport.h"
#include "runtime/transport/ucx/ucx_options.h"

namespace rz::testing {

// Binds this process to one core, so that ranks up to their number have one each; for benchmarks.
// Where the system refuses, nothing happens.
void BindToCore(int rank);

// What a rank does with its connected transport; the text goes to the parent.
using RankBody = std::function<std::string(Transport* transport)>;

// Forks `world` ranks from this process, which must have one thread and never have used UCX, and
// returns their texts in the order of ranks. A rank that does not end as it should has "failed:
// ..." instead; what remains after a generous time is killed.
std::vector<std::string> RunInProcesses(int world, const UcxOptions& options, const RankBody& body);

}  // namespace rz::testing

#endif  // RINGZERO_TESTS_INTEGRATION_PROCESS_JOB_H_
