#include "collectives/shared/shared_area.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/shared/fetch.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHeaderBytes = (sizeof(SharedHeader) + kPage - 1) / kPage * kPage;

}  // namespace

absl::StatusOr<std::unique_ptr<SharedArea>> SharedArea::Allocate(Transport* transport, Group group,
                                                                 size_t slot_bytes) {
  std::unique_ptr<SharedArea> area(new SharedArea(transport, std::move(group), slot_bytes));
  RZ_ASSIGN_OR_RETURN(area->own_,
                      transport->AllocateShared(kHeaderBytes + 2 * kSharedSlots * slot_bytes));
  area->bases_.resize(static_cast<size_t>(area->world()));
  area->bases_[static_cast<size_t>(area->rank())] = area->own_->bytes().data();
  SharedHeader& header = area->header();
  header.address.value.store(reinterpret_cast<int64_t>(&header), std::memory_order_relaxed);
  header.process.value.store(getpid(), std::memory_order_release);
  return area;
}

absl::Status SharedArea::Map(absl::Span<const std::string> keys) {
  absl::Status first;
  for (int r = 0; r < world(); ++r) {
    if (r == rank()) continue;
    auto region = transport_->MapShared(group_.ToTransport(Rank(r)), keys[static_cast<size_t>(r)]);
    if (!region.ok()) {
      first.Update(absl::Status(region.status().code(), absl::StrCat(group_.Describe(Rank(r)), ": ",
                                                                     region.status().message())));
    } else if ((*region)->bytes().size() != own_->bytes().size()) {
      first.Update(absl::UnavailableError(
          absl::StrCat(group_.Describe(Rank(r)), " shares ", (*region)->bytes().size(),
                       " bytes, this rank ", own_->bytes().size())));
    } else {
      bases_[static_cast<size_t>(r)] = (*region)->bytes().data();
      peers_.push_back(*std::move(region));
    }
  }
  return first;
}

void SharedArea::Narrow(Group group, absl::Span<const int> members) {
  std::vector<std::byte*> bases;
  for (int member : members) bases.push_back(bases_[static_cast<size_t>(member)]);
  bases_ = std::move(bases);
  group_ = std::move(group);
}

bool SharedArea::CanFetch() const {
  for (int r = 0; r < world(); ++r) {
    if (r == rank() || !reaches(r)) continue;
    const SharedHeader& theirs = Header(r);
    const int64_t process = theirs.process.value.load(std::memory_order_acquire);
    const auto header =
        static_cast<uintptr_t>(theirs.address.value.load(std::memory_order_relaxed));
    const uintptr_t field = header + offsetof(SharedHeader, address);
    int64_t address = 0;
    if (!Fetch(process, reinterpret_cast<std::byte*>(&address),
               reinterpret_cast<const std::byte*>(field), sizeof address) ||
        static_cast<uintptr_t>(address) != header) {
      return false;
    }
  }
  return true;
}

std::byte* SharedArea::Slot(int rank, int64_t index) const {
  return bases_[static_cast<size_t>(rank)] + kHeaderBytes +
         static_cast<size_t>(index) * slot_bytes_;
}

void SharedArea::Notify() {
  // Either the sleeper's last look comes after the store, or this look after its flag.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int r = 0; r < world(); ++r) {
    if (r == rank() || Header(r).asleep.value.load(std::memory_order_relaxed) == 0) continue;
    transport_->RingDoorbell(group_.ToTransport(Rank(r)));
  }
}

}  // namespace rz
