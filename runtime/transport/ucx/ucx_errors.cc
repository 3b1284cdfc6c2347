#include "runtime/transport/ucx/ucx_errors.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rz {
namespace {

std::string SeenBy(Rank self, Epoch epoch) {
  return absl::StrCat(" (seen by rank ", self.value(), " in epoch ", epoch.value(), ")");
}

}  // namespace

std::string WhyNoTcp(const std::string& network_devices) {
  std::error_code error;
  if (std::filesystem::exists(network_devices, error)) return "";
  return absl::StrCat("; UCX finds no network device without ", network_devices,
                      ", and so has no TCP: mount /sys (in a chroot, mount --rbind /sys ROOT/sys)");
}

absl::Status TruncatedError(Rank self, Rank source, Tag tag, size_t capacity) {
  return absl::OutOfRangeError(absl::StrCat(
      "rank ", self.value(), " expected at most ", capacity, " bytes from rank ", source.value(),
      " under tag 0x", absl::Hex(tag),
      " and a longer message came: do both ranks call the same operations with the same counts?"));
}

absl::Status PeerLostError(Rank self, Rank peer, Epoch epoch, std::string_view reason) {
  return absl::UnavailableError(absl::StrCat(
      "rank ", peer.value(), " is lost: ", absl::string_view(reason.data(), reason.size()),
      SeenBy(self, epoch), "; its process died or the network to it broke, see its log"));
}

absl::Status PeerLeftError(Rank self, Rank peer, Epoch epoch) {
  return absl::UnavailableError(
      absl::StrCat("rank ", peer.value(), " has left", SeenBy(self, epoch),
                   "; it closed its transport while this rank still had operations with it"));
}

absl::Status PeerAbortedError(Rank self, Rank peer, Epoch epoch) {
  return absl::UnavailableError(absl::StrCat("rank ", peer.value(), " has aborted",
                                             SeenBy(self, epoch), "; its own log has the cause"));
}

}  // namespace rz
