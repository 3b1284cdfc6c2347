// The record of one posted operation, and the intrusive lists it travels through: from the pool,
// to the operations under way, to the completed ones, back to the pool.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_OPERATION_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/types.h"
#include "runtime/transport/transport.h"

namespace rz {

class UcxTransport;

struct UcxOperation {
  enum class Kind : uint8_t { kSend, kReceive };

  UcxOperation* previous = nullptr;
  UcxOperation* next = nullptr;

  UcxTransport* transport = nullptr;
  void* request = nullptr;  // UCX's handle while under way there
  CompletionSink* sink = nullptr;
  uint64_t token = 0;
  Tag tag = 0;
  std::byte* data = nullptr;  // of a send: never written
  size_t size = 0;
  Rank peer;
  Kind kind = Kind::kSend;
  // UCX has called back.
  bool finished = false;
  // Its owner has taken it back.
  bool cancelled = false;
  // Completed towards its sink although UCX still holds the record.
  bool abandoned = false;

  size_t moved_bytes = 0;
  absl::Status status;
};

// A FIFO that also removes from its middle. Does not own its operations.
class OperationList {
 public:
  OperationList() { head_.previous = head_.next = &head_; }
  OperationList(const OperationList&) = delete;
  OperationList& operator=(const OperationList&) = delete;

  bool empty() const { return head_.next == &head_; }
  UcxOperation* front() { return empty() ? nullptr : head_.next; }
  // The operation after `operation`, nullptr behind the last.
  UcxOperation* After(UcxOperation* operation) {
    return operation->next == &head_ ? nullptr : operation->next;
  }

  void PushBack(UcxOperation* operation) {
    operation->previous = head_.previous;
    operation->next = &head_;
    head_.previous->next = operation;
    head_.previous = operation;
  }

  // `operation` is in some list.
  static void Remove(UcxOperation* operation) {
    operation->previous->next = operation->next;
    operation->next->previous = operation->previous;
    operation->previous = operation->next = nullptr;
  }

  UcxOperation* PopFront() {
    UcxOperation* operation = front();
    if (operation != nullptr) Remove(operation);
    return operation;
  }

  // Moves all of `other` behind the last one here.
  void Append(OperationList& other) {
    if (other.empty()) return;
    other.head_.next->previous = head_.previous;
    head_.previous->next = other.head_.next;
    other.head_.previous->next = &head_;
    head_.previous = other.head_.previous;
    other.head_.previous = other.head_.next = &other.head_;
  }

 private:
  UcxOperation head_;  // a ring through this sentinel
};

// Owns all records. Grows by blocks and never shrinks: no allocation in the steady state.
class OperationPool {
 public:
  UcxOperation* Take() {
    if (free_ == nullptr) Grow();
    UcxOperation* operation = free_;
    free_ = operation->next;
    operation->next = nullptr;
    return operation;
  }

  void Return(UcxOperation* operation) {
    operation->status = absl::OkStatus();
    operation->request = nullptr;
    operation->abandoned = false;
    operation->cancelled = false;
    operation->finished = false;
    operation->next = free_;
    free_ = operation;
  }

 private:
  static constexpr size_t kBlock = 256;

  void Grow() {
    blocks_.push_back(std::make_unique<UcxOperation[]>(kBlock));
    for (size_t i = 0; i < kBlock; ++i) Return(&blocks_.back()[i]);
  }

  std::vector<std::unique_ptr<UcxOperation[]>> blocks_;
  UcxOperation* free_ = nullptr;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_OPERATION_H_
