#include "runtime/launch/socket_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr char kScheme[] = "unix:";

struct Process {
  pid_t id = 0;
  pid_t parent = 0;
  uint64_t start = 0;  // in clock ticks since the machine was started
};

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return std::nullopt;
  return text;
}

// Nothing where it has ended, or may not be seen.
std::optional<Process> FindProcess(const std::string& processes, pid_t id) {
  const std::optional<std::string> text = ReadFile(absl::StrCat(processes, "/", id, "/stat"));
  if (!text.has_value()) return std::nullopt;
  // The name, in parentheses, may have any character; the state is what follows it (proc(5)).
  const size_t end_of_name = text->rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(text->substr(end_of_name + 1), ' ', absl::SkipWhitespace());
  constexpr size_t kParent = 1;
  constexpr size_t kStart = 19;
  Process process{.id = id};
  if (fields.size() <= kStart || !absl::SimpleAtoi(fields[kParent], &process.parent) ||
      !absl::SimpleAtoi(fields[kStart], &process.start)) {
    return std::nullopt;
  }
  return process;
}

// Whether the process was started with NAME=VALUE. One whose environment is closed to this user,
// such as Slurm's slurmstepd, was not started as a rank of this user's job.
bool HasVariable(const std::string& processes, pid_t id, const std::string& assignment) {
  const std::optional<std::string> text = ReadFile(absl::StrCat(processes, "/", id, "/environ"));
  if (!text.has_value()) return false;
  for (const auto variable : absl::StrSplit(*text, '\0')) {
    if (variable == assignment) return true;
  }
  return false;
}

absl::StatusOr<Process> FindLauncher(const SocketSurroundings& surroundings,
                                     const std::string& assignment) {
  const std::string& processes = surroundings.processes;
  pid_t id = surroundings.self != 0 ? surroundings.self : getpid();
  while (true) {
    const std::optional<Process> process = FindProcess(processes, id);
    if (!process.has_value() || process->parent == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the process that started this rank cannot be seen (above process ", id, ", ", assignment,
          "), so ranks on this host cannot meet by themselves: start `rz_rendezvous --listen "
          "127.0.0.1:PORT`, and set RZ_RENDEZVOUS=127.0.0.1:PORT for all ranks"));
    }
    id = process->parent;
    if (!HasVariable(processes, id, assignment)) {
      // One that may not be seen at all still has a number.
      return FindProcess(processes, id).value_or(Process{.id = id});
    }
  }
}

// A number that PID namespaces of this machine differ in.
std::string PidNamespace(const std::string& processes) {
  std::error_code error;
  const std::string link =
      std::filesystem::read_symlink(absl::StrCat(processes, "/self/ns/pid"), error).string();
  const size_t open = link.find('[');
  if (error || open == std::string::npos || link.back() != ']') return "0";
  return link.substr(open + 1, link.size() - open - 2);
}

absl::Status MakePrivateFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  if (errno != EEXIST) {
    return absl::InternalError(absl::StrCat("cannot make ", path, ", where ranks meet: ",
                                            std::strerror(errno), "; or set RZ_RENDEZVOUS"));
  }
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    return absl::InternalError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      path, ", where ranks meet, must be a folder of user ", geteuid(), " with mode 0700; it is ",
      S_ISDIR(info.st_mode) ? "one" : "none", " of user ", info.st_uid, " with mode ",
      absl::StrFormat("%04o", info.st_mode & 07777), ": remove it, or set RZ_RENDEZVOUS"));
}

}  // namespace

absl::StatusOr<std::string> SocketAddress(const Meeting& meeting, const std::string& rank_value,
                                          const SocketSurroundings& surroundings) {
  RZ_ASSIGN_OR_RETURN(
      const Process launcher,
      FindLauncher(surroundings, absl::StrCat(meeting.rank_variable, "=", rank_value)));
  const std::string folder = absl::StrCat(surroundings.temporary, "/ringzero-", geteuid());
  RZ_RETURN_IF_ERROR(MakePrivateFolder(folder));
  const std::string run = absl::StrCat(meeting.rank_variable, " ", meeting.run);
  return absl::StrCat(kScheme, folder, "/", PidNamespace(surroundings.processes), ".", launcher.id,
                      ".", launcher.start, ".", absl::Hex(Crc32c(0, run.data(), run.size())));
}

void RemoveEndedSockets(const std::string& address, const SocketSurroundings& surroundings) {
  const std::filesystem::path mine(address.substr(std::strlen(kScheme)));
  const std::string pid_namespace = PidNamespace(surroundings.processes);
  std::error_code error;
  // Others may remove them at the same time, which is no error of this rank's.
  for (std::filesystem::directory_iterator entry(mine.parent_path(), error), end;
       !error && entry != end; entry.increment(error)) {
    const std::vector<std::string> parts = absl::StrSplit(entry->path().filename().string(), '.');
    pid_t id = 0;
    uint64_t start = 0;
    if (parts.size() != 4 || parts[0] != pid_namespace || !absl::SimpleAtoi(parts[1], &id) ||
        !absl::SimpleAtoi(parts[2], &start)) {
      continue;
    }
    const std::optional<Process> launcher = FindProcess(surroundings.processes, id);
    const bool hidden = !launcher.has_value() && start == 0;  // it could not be seen before either
    if (hidden || (launcher.has_value() && launcher->start == start)) continue;
    std::error_code gone;
    std::filesystem::remove(entry->path(), gone);
  }
}

}  // namespace rz
