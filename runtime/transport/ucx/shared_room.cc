#include "runtime/transport/ucx/shared_room.h"

#include <sys/statvfs.h>

#include <cstdint>
#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

// Without swapping.
std::optional<uint64_t> FreeOfHost() {
  std::FILE* const file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return std::nullopt;
  char line[256];
  unsigned long long kibibytes = 0;
  bool found = false;
  while (!found && std::fgets(line, sizeof line, file) != nullptr) {
    found = std::sscanf(line, "MemAvailable: %llu kB", &kibibytes) == 1;
  }
  std::fclose(file);
  if (!found) return std::nullopt;
  return uint64_t{kibibytes} << 10;
}

}  // namespace

std::optional<uint64_t> FreeSharedMemory() {
  struct statvfs about;
  if (statvfs(kSharedMemoryDirectory, &about) != 0) return std::nullopt;
  return uint64_t{about.f_bavail} * about.f_frsize;
}

absl::Status CheckSharedRoom(size_t bytes) {
  const auto check = [&](std::optional<uint64_t> free, const char* whose) {
    if (!free.has_value() || bytes <= *free) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("there is no room for ", bytes,
                                                     " bytes of shared memory: ", whose, " has ",
                                                     *free, " free"));
  };
  if (absl::Status status = check(FreeSharedMemory(), kSharedMemoryDirectory); !status.ok()) {
    return status;
  }
  return check(FreeOfHost(), "the host");
}

}  // namespace rz
