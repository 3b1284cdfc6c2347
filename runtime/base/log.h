// Log lines on standard error: `W0102 03:04:05.678 rank 2] text`. RZ_LOG=error|warning|info|debug
// chooses the level (default warning). Nothing here is called in the steady state of a collective,
// and no token, certificate or tensor value is ever logged.
#ifndef RINGZERO_RUNTIME_BASE_LOG_H_
#define RINGZERO_RUNTIME_BASE_LOG_H_

#include <string_view>

#include "absl/strings/str_cat.h"

namespace rz {

enum class LogLevel { kError, kWarning, kInfo, kDebug };

bool LogEnabled(LogLevel level);

// Writes one line with a single write, so that lines of several ranks do not mix. Thread-safe.
void WriteLog(LogLevel level, std::string_view text);

// Names this process's rank in every later line.
void SetLogRank(int rank);

template <typename... Args>
void Log(LogLevel level, const Args&... args) {
  if (LogEnabled(level)) WriteLog(level, absl::StrCat(args...));
}

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_LOG_H_
