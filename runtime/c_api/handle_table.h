// HandleTable: what the C interface hands out instead of pointers, so that no value a caller gives
// back can make the library read memory it does not own.
//
// A handle is {generation 32, index 24, kind 8} and is never dereferenced. Its slot, which is never
// freed, has the generation it is of and counts the calls that are using the object (pins):
//
//   state = generation << 32 | shut << 31 | pins
//
// 1. Find adds a pin where generation and kind match and the slot is not shut.
// 2. Close shuts the slot, so that no new pins come, and waits until its own pin is the last one.
//    Of two threads that close one handle, the second finds it shut.
// 3. The slot goes to the free list; its next object has the next generation.
//
// Threads: any. No lock and no allocation but where the table grows.
#ifndef RINGZERO_RUNTIME_C_API_HANDLE_TABLE_H_
#define RINGZERO_RUNTIME_C_API_HANDLE_TABLE_H_

#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/sync.h"
#include "runtime/c_api/call_scope.h"

namespace rz::c_api {

// Part of every handle, so that one kind is not taken for another.
enum class HandleKind : uint8_t { kServer = 1, kJob, kCommunicator, kRequest, kOptimizer };

// Why `handle` is not a live one of `kind`.
absl::Status BadHandle(const void* handle, HandleKind kind);

template <typename T, HandleKind kind>
class HandleTable {
  struct Slot;

 public:
  // Keeps the object from being closed. Movable.
  class Pin {
   public:
    Pin(Pin&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin() {
      if (slot_ != nullptr) slot_->state.fetch_sub(1, std::memory_order_acq_rel);
    }

    T* operator->() const { return slot_->object; }
    T& operator*() const { return *slot_->object; }

   private:
    friend class HandleTable;
    explicit Pin(Slot* slot) : slot_(slot) {}
    Slot* slot_;
  };

  // The table of the process; for ever.
  static HandleTable& Get() {
    static auto* const table = new HandleTable();
    return *table;
  }

  // ResourceExhausted: as many handles as a table can have are in use.
  absl::StatusOr<void*> Insert(T* object) {
    Slot* const slot = TakeFree();
    if (slot == nullptr) return absl::ResourceExhaustedError("too many handles are in use");
    slot->object = object;
    const uint64_t generation = (slot->state.load(std::memory_order_relaxed) >> 32) + 1;
    slot->state.store(generation << 32, std::memory_order_release);
    return reinterpret_cast<void*>((generation & 0xffffffff) << 32 | uint64_t{slot->index} << 8 |
                                   static_cast<uint64_t>(kind));
  }

  // InvalidArgument, with the result RZ_ERROR_INVALID_HANDLE: it is no live handle of this kind.
  absl::StatusOr<Pin> Find(const void* handle) {
    const auto bits = reinterpret_cast<uint64_t>(handle);
    Slot* const slot =
        (bits & 0xff) == static_cast<uint64_t>(kind) ? SlotAt(bits >> 8 & 0xffffff) : nullptr;
    if (slot == nullptr) return BadHandle(handle, kind);
    uint64_t state = slot->state.load(std::memory_order_acquire);
    do {
      if (state >> 32 != bits >> 32 || (state & kShut) != 0) return BadHandle(handle, kind);
    } while (!slot->state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel));
    return Pin(slot);
  }

  // Ends the handle and gives the object back; null where another thread has closed it meanwhile.
  T* Close(Pin pin) {
    Slot* const slot = pin.slot_;
    if ((slot->state.fetch_or(kShut, std::memory_order_acq_rel) & kShut) != 0) return nullptr;
    while ((slot->state.load(std::memory_order_acquire) & kPins) != 1) sched_yield();
    T* const object = std::exchange(slot->object, nullptr);
    pin.slot_ = nullptr;
    slot->state.fetch_sub(1, std::memory_order_acq_rel);
    Free(slot);
    return object;
  }

 private:
  static constexpr uint64_t kShut = uint64_t{1} << 31;
  static constexpr uint64_t kPins = kShut - 1;
  static constexpr uint32_t kChunkSlots = 256;
  static constexpr uint32_t kChunks = 4096;
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Slot {
    std::atomic<uint64_t> state{kShut};
    T* object = nullptr;
    uint32_t index = 0;
    std::atomic<uint32_t> next_free{kNone};
  };
  using Chunk = std::array<Slot, kChunkSlots>;

  static_assert(sizeof(void*) == 8, "a handle has 64 bits");

  Slot* SlotAt(uint64_t index) {
    if (index >= uint64_t{kChunkSlots} * kChunks) return nullptr;
    Chunk* const chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &(*chunk)[index % kChunkSlots];
  }

  // The free list's head is {changes 32, index 32}: the count of changes tells a head that went and
  // came back from one that stayed.
  Slot* TakeFree() {
    uint64_t head = free_.load(std::memory_order_acquire);
    for (;;) {
      const auto index = static_cast<uint32_t>(head);
      if (index == kNone) {
        if (!Grow()) return nullptr;
        head = free_.load(std::memory_order_acquire);
        continue;
      }
      Slot* const slot = SlotAt(index);
      const uint64_t after = NextHead(head, slot->next_free.load(std::memory_order_relaxed));
      if (free_.compare_exchange_weak(head, after, std::memory_order_acq_rel)) return slot;
    }
  }

  void Free(Slot* slot) {
    uint64_t head = free_.load(std::memory_order_acquire);
    do {
      slot->next_free.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    } while (
        !free_.compare_exchange_weak(head, NextHead(head, slot->index), std::memory_order_acq_rel));
  }

  static uint64_t NextHead(uint64_t head, uint32_t index) {
    return ((head >> 32) + 1) << 32 | index;
  }

  // Adds a chunk, unless another thread has freed a slot meanwhile.
  bool Grow() {
    MutexLock lock(&growing_);
    if (static_cast<uint32_t>(free_.load(std::memory_order_acquire)) != kNone) return true;
    if (chunk_count_ == kChunks) return false;
    auto* const chunk = new Chunk();
    const uint32_t first = chunk_count_ * kChunkSlots;
    for (uint32_t i = 0; i < kChunkSlots; ++i) (*chunk)[i].index = first + i;
    chunks_[chunk_count_++].store(chunk, std::memory_order_release);
    for (Slot& slot : *chunk) Free(&slot);
    return true;
  }

  std::atomic<uint64_t> free_{kNone};
  Mutex growing_;
  uint32_t chunk_count_ = 0;
  std::array<std::atomic<Chunk*>, kChunks> chunks_ = {};
};

}  // namespace rz::c_api

#endif  // RINGZERO_RUNTIME_C_API_HANDLE_TABLE_H_
