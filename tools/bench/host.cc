#include "tools/bench/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rz {

std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

std::string MachineId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) ? id : HostName();
}

std::string ProcessorName(const std::string& cpuinfo) {
  for (const absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() == 2 && absl::StartsWith(parts[0], "model name")) {
      return std::string(absl::StripAsciiWhitespace(parts[1]));
    }
  }
  return "unknown processor";
}

std::vector<int> AllowedProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &set)) processors.push_back(processor);
  }
  return processors;
}

std::optional<int> ChooseProcessor(const std::vector<std::string>& machines, int rank,
                                   const std::vector<int>& allowed, bool crowded) {
  const auto ranks =
      static_cast<size_t>(std::count(machines.begin(), machines.end(), machines[rank]));
  if (allowed.empty() || (ranks > allowed.size() && !crowded)) return std::nullopt;
  const auto before =
      static_cast<size_t>(std::count(machines.begin(), machines.begin() + rank, machines[rank]));
  return allowed[before % allowed.size()];
}

absl::Status BindThread(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot bind to processor ", processor, ": ", std::strerror(errno)));
}

}  // namespace rz
