#include "tools/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "absl/strings/str_cat.h"

namespace rz {

absl::Status FlushStandardOutput() {
  errno = 0;
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (flushed && std::ferror(stdout) == 0 && std::cout.good()) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat("cannot write to standard output", error == 0 ? "" : ": ",
                                         error == 0 ? "" : std::strerror(error)));
}

}  // namespace rz
