// Regions that simulated ranks share: plain memory of this process, found by its key.
#ifndef RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_MEMORY_H_
#define RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/transport/transport.h"

namespace rz {

class SimMemory {
 public:
  // `hosts` has one number an endpoint, equal where they share memory; empty: all do.
  explicit SimMemory(std::vector<int> hosts) : hosts_(std::move(hosts)) {}

  std::unique_ptr<SharedMemory> Allocate(int endpoint, size_t bytes);

  // The region of `owner`, for `endpoint`. Errors as Transport::MapShared.
  absl::StatusOr<std::unique_ptr<SharedMemory>> Map(int endpoint, int owner, std::string_view key);

  // Changes whenever the contents of a region do.
  uint32_t Checksum() const;

 private:
  struct Region {
    explicit Region(size_t bytes);
    absl::Span<std::byte> bytes;
    std::unique_ptr<std::byte[]> memory;
  };
  class View;

  const std::vector<int> hosts_;
  std::vector<std::weak_ptr<Region>> regions_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_MEMORY_H_
