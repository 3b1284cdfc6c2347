// The files of results: JSON for programs, CSV for spreadsheets. Neither holds anything of the
// environment.
#ifndef RINGZERO_TOOLS_BENCH_RESULT_FILES_H_
#define RINGZERO_TOOLS_BENCH_RESULT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/results.h"

namespace rz {

// An object with the description, "results" (one a line of the table, with nccl-tests' names where
// it has them) and the totals. Version 1 of "ringzero benchmark".
std::string ToJson(const RunDescription& run, const std::vector<ResultRow>& rows);

// One line a placement, headed by names.
std::string ToCsv(const std::vector<ResultRow>& rows);

// What ToJson has written, as far as a comparison needs it: the measured times.
//   InvalidArgument  no results of rz_bench, or of a newer version
absl::StatusOr<std::vector<ResultRow>> ParseResults(const std::string& json);

// `path` where there is no such file, otherwise the first of path.1, path.2, ... that is free:
// results are never overwritten. Devices and pipes are written to as they are.
std::string FreePath(const std::string& path);

// Whether a file could be made there, to be asked before the work. Leaves none.
//   Unknown  it could not; the message has the system's reason
absl::Status CheckCreatable(const std::string& path);

//   Unknown  the file cannot be written; the message has the system's reason
absl::Status WriteFile(const std::string& path, const std::string& text);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_RESULT_FILES_H_
