#include "runtime/rendezvous/grpc_log.h"

#include <grpc/support/log.h>

#include "runtime/base/log.h"

namespace rz {

void TameGrpcLog() {
  static const bool done = [] {
    gpr_set_log_function([](gpr_log_func_args* line) {
      Log(LogLevel::kDebug, "gRPC: ", line->file, ":", line->line, ": ", line->message);
    });
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace rz
