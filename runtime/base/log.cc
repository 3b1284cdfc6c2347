#include "runtime/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace rz {
namespace {

std::atomic<int> log_rank{-1};

LogLevel LevelFromEnvironment() {
  const char* value = std::getenv("RZ_LOG");
  if (value == nullptr) return LogLevel::kWarning;
  const std::string_view name = value;
  if (name == "error") return LogLevel::kError;
  if (name == "info") return LogLevel::kInfo;
  if (name == "debug") return LogLevel::kDebug;
  if (name != "warning" && !name.empty()) {
    std::fprintf(stderr,
                 "RZ_LOG=%s is no level; one of error, warning, info, debug: taking warning\n",
                 value);
  }
  return LogLevel::kWarning;
}

}  // namespace

bool LogEnabled(LogLevel level) {
  static const LogLevel enabled = LevelFromEnvironment();
  return level <= enabled;
}

void SetLogRank(int rank) { log_rank.store(rank, std::memory_order_relaxed); }

void WriteLog(LogLevel level, std::string_view text) {
  const int rank = log_rank.load(std::memory_order_relaxed);
  std::string line =
      absl::StrFormat("%c%s%s] %s\n", "EWID"[static_cast<int>(level)],
                      absl::FormatTime("%m%d %H:%M:%E3S", absl::Now(), absl::LocalTimeZone()),
                      rank < 0 ? std::string() : absl::StrCat(" rank ", rank),
                      absl::string_view(text.data(), text.size()));
  const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  (void)written;
}

}  // namespace rz
