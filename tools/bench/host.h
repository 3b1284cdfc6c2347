// Where a rank runs, as the table's head shows it, and how it is kept there.
#ifndef RINGZERO_TOOLS_BENCH_HOST_H_
#define RINGZERO_TOOLS_BENCH_HOST_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rz {

std::string HostName();

// Of the machine, whatever its containers and namespaces are called: the kernel's boot id. The host
// name where there is none.
std::string MachineId();

// "AMD EPYC 9655", from /proc/cpuinfo's text; "unknown processor" where it does not say.
std::string ProcessorName(const std::string& cpuinfo);

// The processors this thread may run on, ascending.
std::vector<int> AllowedProcessors();

// Which of the machine's `allowed` processors rank `rank` takes, where `machines` has every rank's:
// its ranks take one each, in turn. None where there are fewer than ranks and `crowded` is
// false.
std::optional<int> ChooseProcessor(const std::vector<std::string>& machines, int rank,
                                   const std::vector<int>& allowed, bool crowded);

// Keeps the calling thread, and no other, on `processor`.
//   Unavailable  the system refuses; the message has its reason
absl::Status BindThread(int processor);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_HOST_H_
