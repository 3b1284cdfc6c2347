#include "runtime/transport/sim/sim_memory.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/crc32c.h"

namespace rz {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

SimMemory::Region::Region(size_t size) {
  size = (size + kPage - 1) / kPage * kPage;
  memory = std::make_unique<std::byte[]>(size + kPage);
  const size_t past = reinterpret_cast<uintptr_t>(memory.get()) % kPage;
  bytes = absl::MakeSpan(memory.get() + (kPage - past), size);
}

class SimMemory::View final : public SharedMemory {
 public:
  View(std::shared_ptr<Region> region, std::string key) : region_(std::move(region)) {
    bytes_ = region_->bytes;
    key_ = std::move(key);
  }

 private:
  const std::shared_ptr<Region> region_;
};

std::unique_ptr<SharedMemory> SimMemory::Allocate(int endpoint, size_t bytes) {
  auto region = std::make_shared<Region>(bytes);
  regions_.push_back(region);
  return std::make_unique<View>(region, absl::StrCat("sim:", endpoint, ":", regions_.size() - 1));
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SimMemory::Map(int endpoint, int owner,
                                                             std::string_view key) {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(key.data(), key.size()), ':');
  size_t index = 0;
  if (parts.size() != 3 || parts[0] != "sim" || parts[1] != absl::StrCat(owner) ||
      !absl::SimpleAtoi(parts[2], &index) || index >= regions_.size()) {
    return absl::InvalidArgumentError("not the key of a region of that rank");
  }
  if (!hosts_.empty() && hosts_[endpoint] != hosts_[owner]) {
    return absl::UnavailableError("it is on another host");
  }
  std::shared_ptr<Region> region = regions_[index].lock();
  if (region == nullptr) return absl::UnavailableError("the region is gone");
  return std::make_unique<View>(std::move(region), std::string(key));
}

uint32_t SimMemory::Checksum() const {
  uint32_t crc = 0;
  for (const std::weak_ptr<Region>& each : regions_) {
    const std::shared_ptr<Region> region = each.lock();
    if (region != nullptr) crc = Crc32c(crc, region->bytes.data(), region->bytes.size());
  }
  return crc;
}

}  // namespace rz
