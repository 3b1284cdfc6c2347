#include "tools/launch/shared_memory_sweep.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "tools/launch/process.h"

namespace rz {
namespace {

constexpr char kPrefix[] = "ucx_shm_posix_";

bool IsLeftOver(const char* path, std::time_t since) {
  const ScopedFd file(open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (file.get() < 0 || fstat(file.get(), &status) != 0) return false;
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_mtime < since) {
    return false;
  }
  // Refused where anybody else has the file open or mapped; given back with the descriptor.
  return fcntl(file.get(), F_SETLEASE, F_WRLCK) == 0;
}

}  // namespace

int SweepSharedMemory(const std::string& directory, std::time_t since) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().rfind(kPrefix, 0) == 0) files.push_back(entry->path());
  }
  int removed = 0;
  for (const std::filesystem::path& file : files) {
    if (IsLeftOver(file.c_str(), since) && unlink(file.c_str()) == 0) ++removed;
  }
  return removed;
}

}  // namespace rz
