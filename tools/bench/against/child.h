// Runs another program to its end and takes what it writes.
#ifndef RINGZERO_TOOLS_BENCH_AGAINST_CHILD_H_
#define RINGZERO_TOOLS_BENCH_AGAINST_CHILD_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace rz {

using ChildEnvironment = std::vector<std::pair<std::string, std::string>>;

// The standard output of `command` (looked up in PATH), run with `environment` added to ours and no
// input. It gets SIGTERM when this process ends or after `timeout`, and SIGKILL some seconds later.
//   Aborted           its exit code is not 0; the message has it and the last line of its errors
//   DeadlineExceeded  it did not end in time
//   Unavailable       it cannot be run
absl::StatusOr<std::string> RunChild(const std::vector<std::string>& command,
                                     const ChildEnvironment& environment, absl::Duration timeout);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_AGAINST_CHILD_H_
