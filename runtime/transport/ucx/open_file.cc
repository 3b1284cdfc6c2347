#include "runtime/transport/ucx/open_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rz {
namespace {

// The inode of what is mapped at `address`, from the file's beginning; /proc/PID/maps has lines
// "BEGIN-END PERMISSIONS OFFSET DEVICE INODE NAME".
std::optional<uint64_t> MappedInode(const void* address) {
  const std::string begin = absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(address)), "-");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.compare(0, begin.size(), begin) != 0) continue;
    const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t inode = 0, offset = 0;
    if (fields.size() < 5 || !absl::SimpleHexAtoi(fields[2], &offset) || offset != 0 ||
        !absl::SimpleAtoi(fields[4], &inode) || inode == 0) {
      return std::nullopt;
    }
    return inode;
  }
  return std::nullopt;
}

absl::Status Gone(const std::string& what) { return absl::UnavailableError(what); }

}  // namespace

OpenFile FindOpenFile(const void* address) {
  const std::optional<uint64_t> inode = MappedInode(address);
  if (!inode.has_value()) return {};
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    struct stat info;
    int descriptor = -1;
    if (!absl::SimpleAtoi(entry->path().filename().string(), &descriptor)) continue;
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode) || info.st_ino != *inode) continue;
    return {getpid(), descriptor, info.st_dev, info.st_ino};
  }
  return {};
}

absl::StatusOr<absl::Span<std::byte>> MapOpenFile(const OpenFile& file, size_t bytes) {
  if (file.process == 0) return Gone("it is of no file");
  const std::string path = absl::StrCat("/proc/", file.process, "/fd/", file.descriptor);
  // Opening what another process has there instead might wait, or have effects.
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return Gone(absl::StrCat(path, ": ", std::strerror(errno)));
  const auto is_it = [&] {
    return S_ISREG(info.st_mode) && info.st_dev == file.device && info.st_ino == file.inode;
  };
  if (!is_it()) return Gone(absl::StrCat(path, " is another file"));
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return Gone(absl::StrCat(path, ": ", std::strerror(errno)));
  const absl::Cleanup close_it = [descriptor] { close(descriptor); };
  if (fstat(descriptor, &info) != 0 || !is_it()) return Gone(absl::StrCat(path, " has changed"));
  if (static_cast<uint64_t>(info.st_size) < bytes) {
    return Gone(absl::StrCat(path, " has ", info.st_size, " bytes, expected ", bytes));
  }
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) return Gone(absl::StrCat("mapping it: ", std::strerror(errno)));
  return absl::MakeSpan(static_cast<std::byte*>(mapped), bytes);
}

}  // namespace rz
