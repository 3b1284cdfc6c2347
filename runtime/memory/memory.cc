#include "runtime/memory/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rz {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

constexpr std::string_view kTagNames[kMemoryTagCount] = {
    "parameters",  "gradients", "master",  "moment 1",   "moment 2", "bucket",
    "accumulator", "gathered",  "scratch", "activation", "other",
};

// Fresh memory from a multiple of `unit` on, which `size` is a multiple of too; null: there is
// none. Older kernels give huge pages to no mapping that begins elsewhere.
void* MapAligned(size_t size, size_t unit) {
  const size_t slack = unit - kPage;
  if (size > SIZE_MAX - slack) return nullptr;
  void* const memory =
      mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(memory);
  const size_t past = reinterpret_cast<uintptr_t>(first) % unit;
  const size_t head = past == 0 ? 0 : unit - past;
  if (head > 0) munmap(first, head);
  if (head < slack) munmap(first + head + size, slack - head);
  return first + head;
}

}  // namespace

std::string_view NameOf(MemoryTag tag) { return kTagNames[static_cast<size_t>(tag)]; }

void MemoryLedger::Add(MemoryTag tag, size_t bytes) {
  Account& account = accounts_[static_cast<size_t>(tag)];
  const size_t now = account.current.fetch_add(bytes) + bytes;
  size_t peak = account.peak.load();
  while (now > peak && !account.peak.compare_exchange_weak(peak, now)) {
  }
}

void MemoryLedger::Remove(MemoryTag tag, size_t bytes) {
  accounts_[static_cast<size_t>(tag)].current.fetch_sub(bytes);
}

size_t MemoryLedger::Current(MemoryTag tag) const {
  return accounts_[static_cast<size_t>(tag)].current.load();
}

void MemoryLedger::ForgetPeaks() {
  for (Account& account : accounts_) account.peak = account.current.load();
}

size_t MemoryLedger::Peak(MemoryTag tag) const {
  return accounts_[static_cast<size_t>(tag)].peak.load();
}

size_t MemoryLedger::CurrentTotal() const {
  size_t total = 0;
  for (const Account& account : accounts_) total += account.current.load();
  return total;
}

MemoryLedger* MemoryLedger::Default() {
  static MemoryLedger ledger;
  return &ledger;
}

LedgerEntry::LedgerEntry(MemoryTag tag, size_t bytes, MemoryLedger* ledger)
    : tag_(tag), bytes_(bytes), ledger_(ledger) {
  ledger->Add(tag, bytes);
}

LedgerEntry::LedgerEntry(LedgerEntry&& other) noexcept
    : tag_(other.tag_), bytes_(other.bytes_), ledger_(std::exchange(other.ledger_, nullptr)) {}

LedgerEntry& LedgerEntry::operator=(LedgerEntry&& other) noexcept {
  std::swap(tag_, other.tag_);
  std::swap(bytes_, other.bytes_);
  std::swap(ledger_, other.ledger_);
  return *this;
}

LedgerEntry::~LedgerEntry() {
  if (ledger_ != nullptr) ledger_->Remove(tag_, bytes_);
}

absl::StatusOr<Buffer> Buffer::Allocate(size_t size, MemoryTag tag, MemoryLedger* ledger) {
  Buffer buffer;
  if (size > 0) {
    const size_t unit = size >= kHugePage ? kHugePage : kPage;
    const size_t mapped = size > SIZE_MAX - unit ? 0 : (size + unit - 1) / unit * unit;
    void* const memory = mapped == 0 ? nullptr : MapAligned(mapped, unit);
    if (memory == nullptr) {
      const std::string_view name = NameOf(tag);
      return absl::ResourceExhaustedError(absl::StrCat(
          "no memory for ", size, " bytes of ", absl::string_view(name.data(), name.size()), ": ",
          mapped == 0 ? "more than an address can name" : std::strerror(errno)));
    }
    if (unit == kHugePage) madvise(memory, mapped, MADV_HUGEPAGE);
    buffer.data_ = static_cast<std::byte*>(memory);
    buffer.mapped_ = mapped;
    buffer.size_ = size;
  }
  buffer.entry_ = LedgerEntry(tag, size, ledger);
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  Free();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  mapped_ = std::exchange(other.mapped_, 0);
  entry_ = std::move(other.entry_);
  return *this;
}

Buffer::~Buffer() { Free(); }

void Buffer::Free() {
  if (data_ != nullptr) munmap(data_, mapped_);
  data_ = nullptr;
  size_ = 0;
  entry_ = LedgerEntry();
}

}  // namespace rz
