// Memory for large, long-lived buffers, counted by purpose.
//
// Every byte of model state a rank holds is allocated here under a MemoryTag, so that the memory
// report shows what was really held and not what a formula says. Buffers are page-aligned mappings
// with huge pages asked for: the first touch of fresh 4 KiB pages costs more than the training step
// that uses them.
#ifndef RINGZERO_RUNTIME_MEMORY_MEMORY_H_
#define RINGZERO_RUNTIME_MEMORY_MEMORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rz {

enum class MemoryTag : uint8_t {
  kParameters,
  kGradients,
  kMaster,
  kMoment1,
  kMoment2,
  kBucket,       // reduced shards, staging of gradients
  kAccumulator,  // sums over micro-steps
  kGathered,     // parameters put together for use
  kScratch,      // slots of collectives
  kActivation,   // the model's own
  kOther,
};
inline constexpr size_t kMemoryTagCount = 11;

std::string_view NameOf(MemoryTag tag);

// Bytes asked for (not rounded up to pages) by purpose. Thread-safe.
class MemoryLedger {
 public:
  void Add(MemoryTag tag, size_t bytes);
  void Remove(MemoryTag tag, size_t bytes);

  size_t Current(MemoryTag tag) const;
  size_t Peak(MemoryTag tag) const;
  size_t CurrentTotal() const;

  // Peaks from here on.
  void ForgetPeaks();

  // The ledger used where none is given.
  static MemoryLedger* Default();

 private:
  struct Account {
    std::atomic<size_t> current{0};
    std::atomic<size_t> peak{0};
  };
  std::array<Account, kMemoryTagCount> accounts_;
};

// Bytes counted in a ledger for as long as it lives. Movable.
class LedgerEntry {
 public:
  LedgerEntry() = default;
  LedgerEntry(MemoryTag tag, size_t bytes, MemoryLedger* ledger);
  LedgerEntry(LedgerEntry&& other) noexcept;
  LedgerEntry& operator=(LedgerEntry&& other) noexcept;
  ~LedgerEntry();

 private:
  MemoryTag tag_ = MemoryTag::kOther;
  size_t bytes_ = 0;
  MemoryLedger* ledger_ = nullptr;
};

// Zero-filled memory that unmaps and un-counts itself. Movable; 0 bytes are allowed.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  // Maps `size` bytes aligned to at least 4096.
  //   ResourceExhausted  the system gave none; the message says how much, for what, and errno
  static absl::StatusOr<Buffer> Allocate(size_t size, MemoryTag tag,
                                         MemoryLedger* ledger = MemoryLedger::Default());

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  absl::Span<std::byte> bytes() const { return absl::MakeSpan(data_, size_); }

  // The buffer as elements of T; size() is a multiple of sizeof(T).
  template <typename T>
  absl::Span<T> as() const {
    return absl::MakeSpan(reinterpret_cast<T*>(data_), size_ / sizeof(T));
  }

 private:
  void Free();

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;
  LedgerEntry entry_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_MEMORY_MEMORY_H_
