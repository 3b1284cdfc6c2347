// The ways in which the conformance suite runs on UCX.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_CONFORMANCE_OPTIONS_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_CONFORMANCE_OPTIONS_H_

#include "runtime/transport/ucx/ucx_options.h"

namespace rz {

inline UcxOptions AutomaticOptions() {
  UcxOptions options;
  options.keepalive_interval = absl::Milliseconds(100);
  return options;
}

inline UcxOptions TcpOptions() {
  UcxOptions options = AutomaticOptions();
  options.transports = UcxOptions::Transports::kTcp;
  options.net_device = "lo";
  return options;
}

inline UcxOptions SharedMemoryOptions() {
  UcxOptions options = AutomaticOptions();
  options.transports = UcxOptions::Transports::kSharedMemory;
  return options;
}

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_CONFORMANCE_OPTIONS_H_
