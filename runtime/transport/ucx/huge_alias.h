// A second view of a shared mapping at an address where the system may use huge pages, and the
// attempt to make it do so. Streaming through huge pages is 1.1 to 1.3 times as fast, and a first
// touch of fresh memory many times.
//
// /dev/shm gives huge pages only on demand (shmem_enabled is `never` on most systems), and only to
// mappings whose addresses are as well aligned as their place in the file is: UCX's are not.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_HUGE_ALIAS_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_HUGE_ALIAS_H_

#include <cstddef>

#include "absl/types/span.h"

namespace rz {

inline constexpr size_t kHugePage = size_t{2} << 20;

class HugeAlias {
 public:
  HugeAlias() = default;
  // `mapping` is MAP_SHARED, begins at its file's first byte and has whole pages; it may be
  // unmapped before the alias. Empty where the system refuses.
  explicit HugeAlias(absl::Span<std::byte> mapping);
  ~HugeAlias();

  HugeAlias(HugeAlias&& other) noexcept;
  HugeAlias& operator=(HugeAlias&& other) noexcept;

  absl::Span<std::byte> bytes() const { return bytes_; }

  // Puts huge pages behind the mapping, whatever is in it stays. False: not everywhere (the kernel
  // is older than 6.1, or has no huge page to give), and all works as well with small ones.
  bool Collapse() const;

 private:
  absl::Span<std::byte> bytes_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_HUGE_ALIAS_H_
