// LimitSubject: what the bytes of an operation cost at least on this machine: every rank, at the
// same time as the others, reads and writes as many bytes of its own memory as the operation must
// make it read and write, with the same kernels, and nothing is exchanged.
//
//   all_reduce                    sums `world` pieces and stores the sum `world` times
//   reduce_scatter, reduce        sums `world` pieces and stores the sum once
//   all_gather, all_to_all        copies everything
//   sendrecv                      copies everything
//   broadcast                     copies everything, but for the root
//   gather, scatter               copies one rank's piece
//   barrier                       nothing
#ifndef RINGZERO_TOOLS_BENCH_LIMIT_SUBJECT_H_
#define RINGZERO_TOOLS_BENCH_LIMIT_SUBJECT_H_

#include "absl/status/status.h"
#include "collectives/call.h"
#include "tools/bench/subject.h"

namespace rz {

class LimitSubject : public Subject {
 public:
  LimitSubject(int rank, int world) : rank_(rank), world_(world) {}

  // `call` has separate buffers, each of the operation's size on every rank. What is left in recv
  // is no result of the operation.
  absl::Status Run(const MeasuredCall& call) override;

 private:
  absl::Status Move(BenchOperation operation, const Call& call) const;

  const int rank_;
  const int world_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_LIMIT_SUBJECT_H_
