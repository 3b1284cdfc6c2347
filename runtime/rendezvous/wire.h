// How a verdict travels in the error of a call: as a payload of absl::Status here, as the error
// details of a gRPC status between.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_WIRE_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_WIRE_H_

namespace rz {

inline constexpr char kVerdictPayload[] = "ringzero.rendezvous.v1.Verdict";
inline constexpr char kTokenMetadata[] = "x-ringzero-token";

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_WIRE_H_
