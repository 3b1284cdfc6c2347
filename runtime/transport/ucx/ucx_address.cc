#include "runtime/transport/ucx/ucx_address.h"

#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/crc32c.h"

namespace rz {
namespace {

constexpr std::string_view kMagic = "RZU1";
constexpr size_t kHeaderBytes = 8;

std::string EncodedCrc(std::string_view address) {
  const uint32_t crc = Crc32c(0, address.data(), address.size());
  std::string bytes(4, '\0');
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(crc >> (8 * i));
  return bytes;
}

}  // namespace

std::string WrapUcxAddress(std::string_view address) {
  std::string wrapped(kMagic);
  wrapped += EncodedCrc(address);
  wrapped += address;
  return wrapped;
}

absl::StatusOr<std::string_view> UnwrapUcxAddress(std::string_view wrapped) {
  if (wrapped.size() <= kHeaderBytes || wrapped.size() > kMaxTransportAddressBytes) {
    return absl::InvalidArgumentError(absl::StrCat("transport address has ", wrapped.size(),
                                                   " bytes, expected ", kHeaderBytes + 1, " to ",
                                                   kMaxTransportAddressBytes));
  }
  if (wrapped.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError(
        "transport address is not one of this version's UCX transport (it does not start with "
        "RZU1): do all ranks run the same build and transport?");
  }
  const std::string_view address = wrapped.substr(kHeaderBytes);
  if (wrapped.substr(kMagic.size(), 4) != EncodedCrc(address)) {
    return absl::InvalidArgumentError("transport address is damaged: its CRC-32C does not match");
  }
  return address;
}

}  // namespace rz
