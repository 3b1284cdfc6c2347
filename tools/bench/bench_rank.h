// What one rank of a benchmark does between joining its job and leaving it.
#ifndef RINGZERO_TOOLS_BENCH_BENCH_RANK_H_
#define RINGZERO_TOOLS_BENCH_BENCH_RANK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "runtime/job.h"
#include "tools/bench/bench_config.h"

namespace rz {

// Runs or explains what `config` asks for; rank 0 prints it and writes the files. The number of
// wrong elements over all ranks.
//   InvalidArgument  -r names no rank of the job
//   Unknown          a file cannot be written
//   otherwise        what buffers, binding and collectives return
absl::StatusOr<int64_t> BenchAsRank(const BenchConfig& config, Job* job);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_BENCH_RANK_H_
