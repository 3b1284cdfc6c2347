// One rank of a benchmark: joins its job, runs or explains what is asked for, leaves.
#ifndef RINGZERO_TOOLS_BENCH_BENCH_RANK_H_
#define RINGZERO_TOOLS_BENCH_BENCH_RANK_H_

#include <functional>
#include <memory>

#include "collectives/communicator.h"
#include "runtime/job.h"
#include "tools/bench/bench_config.h"
#include "tools/bench/subject.h"

namespace rz {

// What is measured, of the communicator that is made for it.
using MakeSubject = std::function<std::unique_ptr<Subject>(Communicator*)>;
std::unique_ptr<Subject> MeasureTheLibrary(Communicator* communicator);

// Rank 0 prints and writes the files. The exit code: kExitFailure where an element was wrong, on
// every rank, and where something failed, with one line on standard error that says what. (Another
// subject is for tests.)
int RunRank(const BenchConfig& config, const JobEnvironment& environment,
            const MakeSubject& make_subject = MeasureTheLibrary);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_BENCH_RANK_H_
