// What a caller may choose about UCX.
//
// These options are given to UCX directly; the process's environment is neither read for them nor
// changed. UCX's own UCX_* variables still tune what is not listed here. With kAutomatic,
// UCX_TLS and UCX_NET_DEVICES keep their meaning where they are set: for people who know their
// network.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_OPTIONS_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace rz {

struct UcxOptions {
  enum class Transports : uint8_t {
    kAutomatic,     // shared memory within a host, the network between hosts
    kTcp,           // TCP alone, within a host too
    kSharedMemory,  // shared memory alone: all ranks on one host, in one PID namespace
  };
  Transports transports = Transports::kAutomatic;

  // Network device to use, e.g. "eth0" or "lo"; empty: all (TCP then stripes over them).
  std::string net_device;

  // How often UCX asks whether a silent peer still lives. On shared memory a death is noticed
  // within about this time, on TCP within milliseconds.
  absl::Duration keepalive_interval = absl::Seconds(1);

  // WaitForEvent polls this often before it starts to give its core away (unset: 100, or 1 where
  // cores are expected to be few: whoever is waited for needs them), ...
  std::optional<int> spin_iterations;
  // ... and gives it away this often before it sleeps.
  int yield_iterations = 50;

  // How long the destructor waits for peers to confirm that they have received everything.
  absl::Duration leave_timeout = absl::Seconds(2);
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_OPTIONS_H_
