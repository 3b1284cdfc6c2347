// Random collective calls with what they must leave, for tests over any transport: drawn from a
// seed, so that every rank draws the same ones.
#ifndef RINGZERO_COLLECTIVES_TESTING_COLLECTIVE_CASE_H_
#define RINGZERO_COLLECTIVES_TESTING_COLLECTIVE_CASE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/algorithm.h"
#include "collectives/communicator.h"
#include "collectives/reduce_function.h"
#include "collectives/testing/oracle.h"
#include "runtime/base/dtype.h"

namespace rz::testing {

// What one call is, on every rank.
struct CollectiveCase {
  Collective collective = Collective::kBarrier;
  bool has_counts = false;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int64_t count = 0;
  std::vector<std::vector<int64_t>> counts;  // v: [0][rank]; all_to_all_v: [source][destination]
  int64_t tile_chunk = 0;
  int root = 0;
  NumericMode mode = NumericMode::kDeterministic;
  PremulFactor premul;
  bool by_function = false;  // what op says, as a function of the caller's
  bool in_place = false;
  size_t misalignment = 0;  // of the buffers, in bytes
  uint64_t seed = 0;        // of the inputs

  std::string ToString() const;
};

// Does what `op` does, which is neither avg nor premul_sum.
ReduceFunction* FunctionOf(ReduceOp op);

// A job's options and its calls.
struct JobCase {
  uint64_t seed = 0;
  int world = 1;
  CommunicatorOptions options;
  std::vector<CollectiveCase> calls;

  std::string ToString() const;
};

// `largest_count`: of elements, about.
JobCase DrawJobCase(uint64_t seed, int world, int64_t largest_count);

// How ranks share memory: not at all, all of them, or those with one number in `hosts`.
struct Sharing {
  Sharing(bool shares_memory = false) : by_all(shares_memory) {}
  explicit Sharing(std::vector<int> host_of_rank) : hosts(std::move(host_of_rank)) {}

  bool by_all = false;
  std::vector<int> hosts;
};

// What carries the call between communicators with these options.
Algorithm AlgorithmOf(const CollectiveCase& call, int world, const CommunicatorOptions& options,
                      const Sharing& sharing = {});

// One rank's part: memory with guards around it, where its buffers lie, what must be there at the
// end.
class RankCall {
 public:
  RankCall(const CollectiveCase& call, int world, int rank, Bytes send, Bytes expected);

  // Puts the buffers into memory of the communicator, until TakeBack.
  absl::Status UseBufferOf(Communicator& comm);
  void TakeBack();

  absl::StatusOr<Operation> Start(Communicator& comm);

  // "" where everything is as it must be.
  std::string Check() const;

  // What the call has left.
  Bytes Result() const;

 private:
  const CollectiveCase& call_;
  int rank_;
  Bytes send_;
  Bytes expected_;
  bool shares_memory_ = false;  // in place on this rank
  size_t send_at_ = 0;
  size_t recv_at_ = 0;
  Bytes memory_;
  CommunicatorBuffer buffer_;  // empty: memory_ is used
  std::vector<int64_t> counts_;
  std::vector<int64_t> recv_counts_;
};

// Every rank's. `options` are the communicators': they say which algorithm is used, and with it
// where sums round. Where the order of a sum is nobody's promise, inputs are such that any order
// gives the same bits. `call` outlives the result. Ranks that share memory choose otherwise.
std::vector<std::unique_ptr<RankCall>> MakeRankCalls(const CollectiveCase& call, int world,
                                                     const CommunicatorOptions& options,
                                                     const Sharing& sharing = {});

}  // namespace rz::testing

#endif  // RINGZERO_COLLECTIVES_TESTING_COLLECTIVE_CASE_H_
