// --trace: the last steps of all ranks in one file that Perfetto (ui.perfetto.dev) and
// chrome://tracing open: the trace event format's JSON object form, complete events ("X") and names
// ("M"), times in microseconds.
//
// Each rank is a process. Its first lane is what its thread did, which adds up to the step
// breakdown; below it are the reductions, gathers and control messages that were under way, from
// their start until this rank saw that they were done, in as many lanes as overlap.
#ifndef RINGZERO_TOOLS_TRAIN_TRACE_FILE_H_
#define RINGZERO_TOOLS_TRAIN_TRACE_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "optimizer/step_trace.h"
#include "tools/train/clock_alignment.h"

namespace rz {

// Lanes that a rank's reductions, gathers and control messages take.
using TraceLanes = std::array<int64_t, 4>;

// The file is the concatenation of these, each but the last followed by a comma. `units` are names.
std::string TraceEventJson(int rank, const TraceEvent& event, absl::Span<const std::string> units);
std::string TraceLanesJson(int rank, const TraceLanes& lanes);

// Gathers the events of all ranks on rank 0, a few thousand at a time, which writes them to `path`.
// Steps that some rank does not have whole any more are left out on all. Collective. Returns what
// there is to say of the file: its steps and events, what was dropped, how well the clocks agree.
//   Unknown    rank 0 alone: the file cannot be written; the message has the system's reason
//   otherwise  the communicator's first cause
absl::StatusOr<std::string> WriteTrace(StepTrace* trace, const ClockAlignment& alignment,
                                       absl::Span<const std::string> units,
                                       Communicator* communicator, const std::string& path);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_TRACE_FILE_H_
