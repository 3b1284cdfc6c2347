// The envelope around a UCX worker address. UCX reads an address without looking whether it is one,
// so what arrives from elsewhere is checked before UCX sees it.
//
// Layout: "RZU1", CRC-32C of the address (little endian), the address.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_ADDRESS_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_ADDRESS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace rz {

inline constexpr size_t kMaxTransportAddressBytes = 4096;

std::string WrapUcxAddress(std::string_view address);

// The address within; it refers to `wrapped`.
//   InvalidArgument  too short, too long, of another kind, or damaged
absl::StatusOr<std::string_view> UnwrapUcxAddress(std::string_view wrapped);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_ADDRESS_H_
