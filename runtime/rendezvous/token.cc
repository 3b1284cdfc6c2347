#include "runtime/rendezvous/token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/rendezvous/limits.h"

namespace rz {

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  if (path.empty()) return std::string();
  const auto failed = [&path](absl::StatusCode code, const std::string& why) {
    return absl::Status(code, absl::StrCat("token file ", path, ": ", why));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return failed(errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInternal,
                  std::strerror(errno));
  }
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat info;
  if (fstat(fd, &info) != 0) return failed(absl::StatusCode::kInternal, std::strerror(errno));
  if ((info.st_mode & 077) != 0) {
    return failed(absl::StatusCode::kPermissionDenied,
                  "others may read it: chmod 600 it, and take a new token");
  }
  // One byte more than allowed shows that there is too much.
  std::string token(limits::kMaxTokenBytes + 1, '\0');
  size_t size = 0;
  while (size < token.size()) {
    const ssize_t got = read(fd, &token[size], token.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(absl::StatusCode::kInternal, std::strerror(errno));
    if (got == 0) break;
    size += got;
  }
  token.resize(size);
  if (size > limits::kMaxTokenBytes) {
    return failed(absl::StatusCode::kInvalidArgument,
                  absl::StrCat("longer than ", limits::kMaxTokenBytes, " bytes"));
  }
  absl::StripTrailingAsciiWhitespace(&token);
  if (token.size() < limits::kMinTokenBytes) {
    return failed(absl::StatusCode::kInvalidArgument,
                  absl::StrCat("a token has at least ", limits::kMinTokenBytes,
                               " characters (head -c 32 /dev/urandom | base64)"));
  }
  const auto printable = [](unsigned char c) { return absl::ascii_isgraph(c); };
  if (!std::all_of(token.begin(), token.end(), printable)) {
    return failed(absl::StatusCode::kInvalidArgument,
                  "a token is one line of printable characters");
  }
  return token;
}

bool TokensEqual(std::string_view expected, std::string_view given) {
  unsigned difference = expected.size() == given.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    // An expected token is never empty; a shorter one is gone through again.
    const char want = expected.empty() ? '\0' : expected[i % expected.size()];
    difference |= static_cast<unsigned char>(want ^ given[i]);
  }
  return difference == 0;
}

}  // namespace rz
