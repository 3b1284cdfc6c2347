// Subject: what is measured, behind a seam, so that a test can put something wrong in its place.
#ifndef RINGZERO_TOOLS_BENCH_SUBJECT_H_
#define RINGZERO_TOOLS_BENCH_SUBJECT_H_

#include <vector>

#include "absl/status/status.h"
#include "collectives/call.h"
#include "collectives/communicator.h"
#include "runtime/base/types.h"
#include "tools/bench/operation.h"

namespace rz {

// One iteration: `calls` of the operation, as one group where there are several. What their counts
// point to outlives this.
struct MeasuredCall {
  BenchOperation operation = BenchOperation::kAllReduce;
  std::vector<Call> calls;
  Rank next = Rank(0);      // of sendrecv
  Rank previous = Rank(0);  // likewise
};

class Subject {
 public:
  virtual ~Subject() = default;

  // Runs it to its end. Allocates nothing of its own once it has run such a call.
  virtual absl::Status Run(const MeasuredCall& call) = 0;
};

// The library.
class CommunicatorSubject : public Subject {
 public:
  // The communicator outlives this.
  explicit CommunicatorSubject(Communicator* communicator) : communicator_(*communicator) {}

  absl::Status Run(const MeasuredCall& call) override;

 private:
  absl::Status RunOne(const Call& call);
  absl::Status RunMessages(const MeasuredCall& call);

  Communicator& communicator_;
  std::vector<Operation> operations_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_SUBJECT_H_
