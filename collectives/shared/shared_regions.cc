#include "collectives/shared/shared_regions.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace rz {

SharedRegions::SharedRegions(Transport* transport, const Group& group, SharedArea* area)
    : transport_(transport),
      group_(group),
      area_(area),
      theirs_(static_cast<size_t>(area->world())),
      freed_(static_cast<size_t>(area->world())) {}

absl::StatusOr<absl::Span<std::byte>> SharedRegions::Allocate(size_t bytes) {
  size_t at = 0;
  while (at < own_.size() && own_[at].memory != nullptr) ++at;
  if (at == own_.size()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this communicator has ", own_.size(), " regions of shared memory, as many as it may"));
  }
  View& view = own_[at];
  RZ_ASSIGN_OR_RETURN(view.memory, transport_->AllocateShared(bytes));
  ++view.use;
  ++count_;
  SharedDirectoryEntry& entry = area_->header().regions[at];
  const std::string& key = view.memory->key();
  entry.key_bytes = static_cast<uint32_t>(key.size());
  std::memcpy(entry.key.data(), key.data(), key.size());
  entry.use.store(view.use, std::memory_order_release);
  return view.memory->bytes();
}

bool SharedRegions::Free(const std::byte* data) {
  for (size_t i = 0; i < own_.size(); ++i) {
    if (own_[i].memory == nullptr || own_[i].memory->bytes().data() != data) continue;
    area_->header().regions[i].use.store(0, std::memory_order_release);
    --count_;
    own_[i].memory.reset();
    area_->header().freed.value.fetch_add(1, std::memory_order_release);
    return true;
  }
  return false;
}

SharedPlace SharedRegions::PlaceOf(const void* data, size_t bytes) const {
  if (empty()) return {};
  const auto* const first = static_cast<const std::byte*>(data);
  for (size_t i = 0; i < own_.size(); ++i) {
    if (own_[i].memory == nullptr) continue;
    const absl::Span<std::byte> region = own_[i].memory->bytes();
    if (first < region.data() || first >= region.data() + region.size()) continue;
    const auto offset = static_cast<size_t>(first - region.data());
    if (bytes > region.size() - offset) return {};
    return {static_cast<int32_t>(i), own_[i].use, offset};
  }
  return {};
}

void SharedRegions::Sweep(int rank) {
  const auto index = static_cast<size_t>(rank);
  const int64_t freed = area_->Header(rank).freed.value.load(std::memory_order_acquire);
  if (freed == freed_[index]) return;
  freed_[index] = freed;
  for (size_t i = 0; i < kSharedRegions; ++i) {
    View& view = theirs_[index][i];
    const int32_t use = area_->Header(rank).regions[i].use.load(std::memory_order_acquire);
    if (view.use != use) view.memory.reset();
  }
}

SharedRegions::View* SharedRegions::ViewOf(int rank, const SharedPlace& place) {
  if (place.region < 0 || static_cast<size_t>(place.region) >= kSharedRegions) return nullptr;
  Sweep(rank);
  const auto index = static_cast<size_t>(place.region);
  View& view = theirs_[static_cast<size_t>(rank)][index];
  if (view.memory != nullptr && view.use == place.use) return &view;
  view.memory.reset();
  const SharedDirectoryEntry& entry = area_->Header(rank).regions[index];
  if (entry.use.load(std::memory_order_acquire) != place.use ||
      entry.key_bytes > entry.key.size()) {
    return nullptr;
  }
  auto mapped = transport_->MapShared(group_.ToTransport(Rank(rank)),
                                      std::string_view(entry.key.data(), entry.key_bytes));
  if (!mapped.ok()) return nullptr;
  view.memory = *std::move(mapped);
  view.use = place.use;
  return &view;
}

std::byte* SharedRegions::AddressOf(int rank, const SharedPlace& place) {
  const View* const view = ViewOf(rank, place);
  if (view == nullptr || place.offset >= view->memory->bytes().size()) return nullptr;
  return view->memory->bytes().data() + place.offset;
}

}  // namespace rz
