// UcxTransport: the message link over UCX, between processes of one host (POSIX shared memory) and
// of several (TCP, or what else UCX finds). See transport.h for the contract it keeps.
//
// Beyond the contract:
//  - An operation costs no allocation and no lock of ours once as many operations were in flight
//    before.
//  - A peer's death is noticed by broken connections and by UCX's keepalive, on idle pairs too, and
//    while this rank sleeps in WaitForEvent. A stopped process is never noticed here, nor is a dead
//    one on shared memory whose parent has not reaped it.
//  - Leaving: the destructor says goodbye to every peer and waits (UcxOptions::leave_timeout) for
//    the answers, so that messages a peer has not received yet reach it. Messages that had been
//    sent can still be received afterwards; other operations with a rank that left complete with
//    Unavailable ("rank 2 has left").
//  - Abort tells the peers, for some seconds at most: their operations with this rank complete
//    with Unavailable ("rank 2 has aborted").
//  - Operations still under way in the destructor are dropped and their sinks not called: Abort and
//    Progress first where they must hear of it.
//  - A large message that was half moved when its peer went may be one UCX never gives back. It is
//    completed 100 ms later all the same; this rank's Abort does so within seconds.
//
// Process-wide effects: UCX handles SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGHUP from the moment its
// library is loaded; the first CreateUcxTransport gives these back to whoever had them before. UCX
// is not fork-safe: fork only before the first CreateUcxTransport, or exec right after the fork.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_TRANSPORT_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/transport/transport.h"
#include "runtime/transport/ucx/ucx_options.h"

namespace rz {

// Opens a worker of its own.
//   ResourceExhausted  shared memory is asked for alone and too small; the message names the path,
//                      what it has and what is needed
//   Unavailable        UCX finds no transport it may use, or cannot start one
//   InvalidArgument    an option UCX refuses
absl::StatusOr<std::unique_ptr<Transport>> CreateUcxTransport(const UcxOptions& options);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_TRANSPORT_H_
