// absl::Status as gRPC carries it, with the verdict in the error details.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_GRPC_STATUS_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace rz {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// Whether `status` tells of a failed job, and not of a call that failed.
bool HasVerdict(const absl::Status& status);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_GRPC_STATUS_H_
