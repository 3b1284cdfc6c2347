#include "runtime/transport/ucx/self_link.h"

#include <cstring>

#include "runtime/transport/ucx/ucx_errors.h"

namespace rz {
namespace {

void Transfer(UcxOperation* send, UcxOperation* receive) {
  if (send->size > receive->size) {
    receive->status = TruncatedError(receive->peer, receive->peer, receive->tag, receive->size);
    receive->moved_bytes = 0;
  } else {
    if (send->size > 0) std::memmove(receive->data, send->data, send->size);
    receive->moved_bytes = send->size;
  }
  send->moved_bytes = send->size;
}

}  // namespace

OperationList& SelfLink::BucketOf(Tag tag) {
  // Lanes count in the low bits, operations in the middle ones.
  return waiting_[(tag ^ tag >> 12 ^ tag >> 34) % kBuckets];
}

void SelfLink::Post(UcxOperation* operation, OperationList& ready) {
  OperationList& bucket = BucketOf(operation->tag);
  for (UcxOperation* other = bucket.front(); other != nullptr; other = bucket.After(other)) {
    if (other->tag != operation->tag || other->kind == operation->kind) continue;
    OperationList::Remove(other);
    const bool is_send = operation->kind == UcxOperation::Kind::kSend;
    Transfer(is_send ? operation : other, is_send ? other : operation);
    ready.PushBack(other);
    ready.PushBack(operation);
    return;
  }
  bucket.PushBack(operation);
}

void SelfLink::CancelReceives(const CompletionSink* sink, const absl::Status& cause,
                              OperationList& ready) {
  for (OperationList& bucket : waiting_) {
    for (UcxOperation *each = bucket.front(), *next; each != nullptr; each = next) {
      next = bucket.After(each);
      if (each->kind != UcxOperation::Kind::kReceive || each->sink != sink) continue;
      OperationList::Remove(each);
      each->status = cause;
      each->moved_bytes = 0;
      ready.PushBack(each);
    }
  }
}

void SelfLink::FailAll(const absl::Status& cause, OperationList& ready) {
  for (OperationList& bucket : waiting_) {
    for (UcxOperation* each = bucket.front(); each != nullptr; each = bucket.After(each)) {
      each->status = cause;
      each->moved_bytes = 0;
    }
    ready.Append(bucket);
  }
}

}  // namespace rz
