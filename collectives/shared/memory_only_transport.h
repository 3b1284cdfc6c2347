// A transport for tests that only shares memory, all of it of this process: ranks may be threads,
// and a race detector sees every load and store.
#ifndef RINGZERO_COLLECTIVES_SHARED_MEMORY_ONLY_TRANSPORT_H_
#define RINGZERO_COLLECTIVES_SHARED_MEMORY_ONLY_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/transport/transport.h"

namespace rz::testing {

inline constexpr size_t kRegionPage = 4096;

// Regions that all threads see at one address.
struct Regions {
  struct Region {
    std::vector<std::byte> memory;
    std::byte* data = nullptr;
    size_t size = 0;
  };
  std::mutex mutex;
  std::vector<std::unique_ptr<Region>> all;
};

class Region final : public SharedMemory {
 public:
  Region(std::byte* data, size_t size, std::string key) {
    bytes_ = absl::MakeSpan(data, size);
    key_ = std::move(key);
  }
};

// A transport that only shares memory, and whose doorbells and waits are counted.
class MemoryOnly final : public Transport {
 public:
  MemoryOnly(Regions* regions, int rank, int world)
      : regions_(regions), rank_(rank), world_(world) {}

  absl::StatusOr<std::unique_ptr<SharedMemory>> AllocateShared(size_t bytes) override {
    std::lock_guard<std::mutex> lock(regions_->mutex);
    auto region = std::make_unique<Regions::Region>();
    region->size = (bytes + kRegionPage - 1) / kRegionPage * kRegionPage;
    region->memory.resize(region->size + kRegionPage);
    const auto at = reinterpret_cast<uintptr_t>(region->memory.data());
    region->data = region->memory.data() + (kRegionPage - at % kRegionPage);
    regions_->all.push_back(std::move(region));
    const Regions::Region& made = *regions_->all.back();
    return std::make_unique<Region>(made.data, made.size, std::to_string(regions_->all.size() - 1));
  }
  absl::StatusOr<std::unique_ptr<SharedMemory>> MapShared(Rank, std::string_view key) override {
    std::lock_guard<std::mutex> lock(regions_->mutex);
    const Regions::Region& region = *regions_->all[std::stoul(std::string(key))];
    return std::make_unique<Region>(region.data, region.size, std::string(key));
  }
  void RingDoorbell(Rank) override { ++rung; }

  std::string LocalAddress() const override { return ""; }
  absl::Status Connect(Rank, absl::Span<const std::string>, Epoch) override {
    return absl::OkStatus();
  }
  Rank rank() const override { return Rank(rank_); }
  int world_size() const override { return world_; }
  absl::Status PostSend(Rank, Tag, absl::Span<const std::byte>, CompletionSink*,
                        uint64_t) override {
    return absl::UnimplementedError("no messages");
  }
  absl::Status PostRecv(Rank, Tag, absl::Span<std::byte>, CompletionSink*, uint64_t) override {
    return absl::UnimplementedError("no messages");
  }
  void CancelReceives(CompletionSink*) override {}
  int Progress() override { return 0; }
  void WaitForEvent(Deadline) override { ++waited; }
  void Wake() override {}
  void Abort(absl::Status) override {}
  std::string Description() const override { return "memory only"; }

  int rung = 0;
  int waited = 0;

 private:
  Regions* const regions_;
  const int rank_;
  const int world_;
};

}  // namespace rz::testing

#endif  // RINGZERO_COLLECTIVES_SHARED_MEMORY_ONLY_TRANSPORT_H_
