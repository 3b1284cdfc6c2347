// Part: a communicator of some of the ranks, as a hierarchy uses it. The parent polls it, hears of
// its trouble and judges what to fail of; a part fails nothing by itself.
#ifndef RINGZERO_COLLECTIVES_HIERARCHY_PART_H_
#define RINGZERO_COLLECTIVES_HIERARCHY_PART_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/call.h"

namespace rz {

// Threads: the owner of the parent.
class Part {
 public:
  virtual ~Part() = default;

  // As a call of Communicator; the operation's number.
  virtual absl::StatusOr<int64_t> Start(const Call& call) = 0;
  virtual bool IsDone(int64_t number) const = 0;

  // Moves what can be moved; returns how much.
  virtual int Poll() = 0;

  // OK, or what has gone wrong first.
  virtual absl::Status trouble() const = 0;

  // Ends everything under way with `cause`; it is over when the part is idle.
  virtual void Fail(const absl::Status& cause) = 0;
  virtual bool idle() const = 0;

  // What an operation under way waits for, and for which rank of the part; -1: none in particular.
  virtual std::string DescribeWait(int64_t number) const = 0;
  virtual int WaitsFor(int64_t number) const = 0;

  // Memory for buffers of calls, in reach of the part's other ranks where they share memory; until
  // the next call, or the part's end.
  //   ResourceExhausted  there is none
  virtual absl::StatusOr<absl::Span<std::byte>> Scratch(size_t bytes) = 0;

  // False in a simulation: buffers are addresses, at which nobody reads or writes.
  virtual bool carries_payload() const { return true; }
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_HIERARCHY_PART_H_
