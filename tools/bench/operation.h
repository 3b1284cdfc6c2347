// The operations rz_bench measures, by name, with what each needs to be said about it.
#ifndef RINGZERO_TOOLS_BENCH_OPERATION_H_
#define RINGZERO_TOOLS_BENCH_OPERATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/collective.h"

namespace rz {

enum class BenchOperation : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSendRecv,  // every rank sends to the next one and receives from the one before
  kBarrier,
  kReduceScatterV,
  kAllGatherV,
  kAllToAllV,
};

struct OperationTraits {
  BenchOperation operation;
  std::string_view name;                 // "all_reduce", "sendrecv", "all_to_all_v", ...
  std::optional<Collective> collective;  // none: point to point
  bool is_v = false;
  bool reduces = false;
  bool has_root = false;
  // Which of the two halves of a line there are: separate buffers, and in place.
  bool out_of_place = true;
  bool in_place = true;
};

const OperationTraits& TraitsOf(BenchOperation operation);
std::string_view NameOf(BenchOperation operation);

// In the order in which `all` runs them.
const std::vector<BenchOperation>& AllOperations();

// Names, their aliases ("allreduce", "alltoallv", "bcast", "send_recv") and the names of
// nccl-tests' programs ("all_reduce_perf"); "all" stands for all. Each is kept once.
//   InvalidArgument  none, or an unknown name; the message has the nearest
absl::StatusOr<std::vector<BenchOperation>> ParseOperations(const std::vector<std::string>& names);

// busbw = algbw times this: what a link of each rank carries for a byte of the operation's size,
// where the algorithm sends the least bytes. As nccl-tests defines it; v variants as the even ones.
double BusFactor(BenchOperation operation, int world);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_OPERATION_H_
