#include "runtime/transport/ucx/huge_alias.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace rz {
namespace {

#if defined(MADV_COLLAPSE)
constexpr int kCollapse = MADV_COLLAPSE;
#else
constexpr int kCollapse = 25;  // Linux 6.1; the C library may be older
#endif

// Address space for `size` bytes from a multiple of kHugePage on; null: there is none.
std::byte* Reserve(size_t size) {
  void* const memory = mmap(nullptr, size + kHugePage, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(memory);
  const size_t past = reinterpret_cast<uintptr_t>(first) % kHugePage;
  const size_t head = past == 0 ? 0 : kHugePage - past;
  if (head > 0) munmap(first, head);
  if (head < kHugePage) munmap(first + head + size, kHugePage - head);
  return first + head;
}

}  // namespace

HugeAlias::HugeAlias(absl::Span<std::byte> mapping) {
  std::byte* const place = Reserve(mapping.size());
  if (place == nullptr) return;
  // An old size of 0 leaves the mapping where it is. Not mremap(): UCX's hook of it drops the last
  // argument.
  const auto moved = syscall(SYS_mremap, mapping.data(), size_t{0}, mapping.size(),
                             MREMAP_MAYMOVE | MREMAP_FIXED, place);
  if (moved == -1) {
    munmap(place, mapping.size());
    return;
  }
  bytes_ = absl::MakeSpan(place, mapping.size());
}

HugeAlias::~HugeAlias() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

HugeAlias::HugeAlias(HugeAlias&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

HugeAlias& HugeAlias::operator=(HugeAlias&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

bool HugeAlias::Collapse() const {
  bool all = !bytes_.empty();
  for (size_t at = 0; at + kHugePage <= bytes_.size(); at += kHugePage) {
    // What has no page at all is refused.
    static_cast<void>(*static_cast<volatile std::byte*>(bytes_.data() + at));
    all = all && madvise(bytes_.data() + at, kHugePage, kCollapse) == 0;
  }
  return all;
}

}  // namespace rz
