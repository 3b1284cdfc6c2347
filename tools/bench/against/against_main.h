// rz_bench --against: from the configuration to the printed comparison and its files.
#ifndef RINGZERO_TOOLS_BENCH_AGAINST_AGAINST_MAIN_H_
#define RINGZERO_TOOLS_BENCH_AGAINST_AGAINST_MAIN_H_

#include <string>

#include "absl/status/status.h"
#include "tools/bench/bench_config.h"

namespace rz {

// `self` is this program. Without -np two ranks are compared.
//   as AgainstRun::Run, and:
//   Unknown  a file cannot be written
absl::Status CompareWithPeers(const BenchConfig& config, const std::string& self);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_AGAINST_AGAINST_MAIN_H_
