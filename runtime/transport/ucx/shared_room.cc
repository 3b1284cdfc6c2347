#include "runtime/transport/ucx/shared_room.h"

#include <sys/statvfs.h>

#include <cstdint>
#include <cstdio>
#include <limits>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

uint64_t FreeOfFolder() {
  struct statvfs about;
  if (statvfs("/dev/shm", &about) != 0) return kUnknown;
  return uint64_t{about.f_bavail} * about.f_frsize;
}

// Without swapping.
uint64_t FreeOfHost() {
  std::FILE* const file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return kUnknown;
  char line[256];
  unsigned long long kibibytes = 0;
  bool found = false;
  while (!found && std::fgets(line, sizeof line, file) != nullptr) {
    found = std::sscanf(line, "MemAvailable: %llu kB", &kibibytes) == 1;
  }
  std::fclose(file);
  return found ? uint64_t{kibibytes} << 10 : kUnknown;
}

}  // namespace

absl::Status CheckSharedRoom(size_t bytes) {
  const auto check = [&](uint64_t free, const char* whose) {
    if (bytes <= free) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("there is no room for ", bytes,
                                                     " bytes of shared memory: ", whose, " has ",
                                                     free, " free"));
  };
  if (absl::Status status = check(FreeOfFolder(), "/dev/shm"); !status.ok()) return status;
  return check(FreeOfHost(), "the host");
}

}  // namespace rz
