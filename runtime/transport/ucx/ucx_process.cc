#include "runtime/transport/ucx/ucx_process.h"

#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>

#include "runtime/base/log.h"

namespace rz {
namespace {

LogLevel LevelOf(ucs_log_level_t level) {
  if (level == UCS_LOG_LEVEL_FATAL) return LogLevel::kError;
  return level <= UCS_LOG_LEVEL_INFO ? LogLevel::kInfo : LogLevel::kDebug;
}

ucs_log_func_rc_t ForwardLog(const char* file, unsigned line, const char* function,
                             ucs_log_level_t level, const ucs_log_component_config_t* component,
                             const char* format, va_list arguments) {
  if (!LogEnabled(LevelOf(level))) return UCS_LOG_FUNC_RC_STOP;
  char text[1024];
  std::vsnprintf(text, sizeof text, format, arguments);
  Log(LevelOf(level), "UCX: ", text);
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void TameUcx() {
  static const bool done = [] {
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGHUP}) ucs_debug_disable_signal(signal);
    ucs_log_push_handler(ForwardLog);
    return true;
  }();
  (void)done;
}

// UCX takes the signals when it is loaded, long before a transport is made.
[[maybe_unused]] const bool tamed_at_load = (TameUcx(), true);

}  // namespace rz
