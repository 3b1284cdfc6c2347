// PackedCalls: several small calls of one kind carried by one operation.
//
// The calls' data is copied into one buffer in which block r holds rank r's chunk of every call,
// one after the other, and back from there. Ownership decides the order of summation, and every
// element keeps its owner, so a packed reduction has the bits of the single ones where the
// algorithm is the same; messages are those of one call.
#ifndef RINGZERO_COLLECTIVES_PACKED_CALLS_H_
#define RINGZERO_COLLECTIVES_PACKED_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/call.h"
#include "runtime/base/types.h"
#include "runtime/memory/memory.h"

namespace rz {

// The call's bytes are few and it is of a kind that can be packed.
bool IsPackable(const Call& call, int world);

// They can go into one operation.
bool ArePackable(const Call& a, const Call& b);

class PackedCalls {
 public:
  // Copies the inputs of `calls`, which are packable together; the buffers they write stay until
  // Unpack. Memory of earlier packs is used again.
  //   ResourceExhausted  there is no memory
  absl::Status Pack(absl::Span<const Call> calls, Rank rank, int world);

  // The one call that stands for them, in place in the packed buffer. Of all_reduce and all_gather
  // a v variant; valid until the next Pack.
  const Call& call() const { return call_; }

  // Copies what the operation left to where the calls want it.
  void Unpack() const;

 private:
  // Calls f(call, range of its buffer, bytes into the packed buffer) for each piece.
  template <typename F>
  void ForEachPiece(F f) const;

  std::vector<Call> calls_;
  std::vector<int64_t> counts_;  // of the packed blocks
  Call call_;
  Rank rank_;
  int world_ = 1;
  Buffer memory_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_PACKED_CALLS_H_
