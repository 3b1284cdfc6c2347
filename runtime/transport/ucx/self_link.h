// SelfLink: messages of a rank to itself. They are matched and copied here and never reach UCX,
// which could not complete a large send to oneself on abort. A send completes when its receive has
// been posted.
//
// Threads: the transport's owner alone.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_SELF_LINK_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_SELF_LINK_H_

#include <array>

#include "absl/status/status.h"
#include "runtime/transport/ucx/operation.h"

namespace rz {

class SelfLink {
 public:
  // Takes `operation` in. Where its partner is already here the bytes are copied and both go to
  // `ready` with their result; otherwise it waits.
  void Post(UcxOperation* operation, OperationList& ready);

  // Completes the receives of `sink` that wait with `cause`.
  void CancelReceives(const CompletionSink* sink, const absl::Status& cause, OperationList& ready);

  // Completes everything that waits with `cause`.
  void FailAll(const absl::Status& cause, OperationList& ready);

 private:
  // Waiting operations by tag, in the order posted.
  static constexpr size_t kBuckets = 256;
  OperationList& BucketOf(Tag tag);

  std::array<OperationList, kBuckets> waiting_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_SELF_LINK_H_
