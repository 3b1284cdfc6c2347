// gRPC's own log lines, which are raw dumps for its developers, become lines of our log at level
// debug: what a user is to know stands in the status of the call.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_GRPC_LOG_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_GRPC_LOG_H_

namespace rz {

// Before the first use of gRPC; later calls do nothing. Thread-safe.
void TameGrpcLog();

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_GRPC_LOG_H_
