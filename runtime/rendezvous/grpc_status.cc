#include "runtime/rendezvous/grpc_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "runtime/rendezvous/wire.h"

namespace rz {

grpc::Status ToGrpc(const absl::Status& status) {
  // The numbers of the codes are the same by design.
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const absl::optional<absl::Cord> verdict = status.GetPayload(kVerdictPayload);
  return grpc::Status(code, std::string(status.message()),
                      verdict.has_value() ? std::string(*verdict) : std::string());
}

absl::Status FromGrpc(const grpc::Status& status) {
  const int code = status.error_code();
  const bool known = code >= 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status result(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      status.error_message());
  if (!status.error_details().empty()) {
    result.SetPayload(kVerdictPayload, absl::Cord(status.error_details()));
  }
  return result;
}

bool HasVerdict(const absl::Status& status) {
  return status.GetPayload(kVerdictPayload).has_value();
}

}  // namespace rz
