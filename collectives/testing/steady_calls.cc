#include "collectives/testing/steady_calls.h"

#include <algorithm>
#include <utility>

#include "collectives/reduce_function.h"

namespace rz::testing {
namespace {

constexpr DType kDType = DType::kBFloat16;
constexpr int64_t kCount = 3001;
static_assert(kCount * int64_t{sizeof(uint16_t)} <= int64_t{kSteadyBytes});

SteadyCall Plain(Collective collective, std::string name, int64_t tile_chunk = 0) {
  return {std::move(name), [=](Communicator& comm, const void* send, void* recv) {
            const CallOptions options = {.tile_chunk = tile_chunk};
            const Rank root(comm.world_size() - 1);
            switch (collective) {
              case Collective::kAllReduce:
                return comm.StartAllReduce(send, recv, kCount, kDType, ReduceOp::kAvg, options);
              case Collective::kReduceScatter:
                return comm.StartReduceScatter(send, recv, kCount, kDType, ReduceOp::kSum, options);
              case Collective::kAllGather:
                return comm.StartAllGather(send, recv, kCount, kDType, options);
              case Collective::kBroadcast:
                return comm.StartBroadcast(recv, kCount, kDType, root);
              case Collective::kReduce:
                return comm.StartReduce(send, recv, kCount, kDType, ReduceOp::kSum, root);
              case Collective::kAllToAll:
                return comm.StartAllToAll(send, recv, kCount / comm.world_size(), kDType);
              case Collective::kGather:
                return comm.StartGather(send, recv, kCount, kDType, root);
              case Collective::kScatter:
                return comm.StartScatter(send, recv, kCount, kDType, root);
              case Collective::kBarrier:
                break;
            }
            return comm.StartBarrier();
          }};
}

// What `from` sends `to`: by the distance alone, so that all ranks know it.
int64_t CountOfPair(int from, int to, int world) {
  const int distance = (to - from + world) % world;
  return distance % 3 == 2 ? 0 : 5 + 100 * distance;
}

std::vector<SteadyCall> VariantsWithCounts(int world) {
  std::vector<int64_t> counts;
  std::vector<std::vector<int64_t>> to(world), from(world);
  for (int r = 0; r < world; ++r) {
    counts.push_back(r % 3 == 1 ? 0 : 100 + 50 * r);
    for (int peer = 0; peer < world; ++peer) {
      to[r].push_back(CountOfPair(r, peer, world));
      from[r].push_back(CountOfPair(peer, r, world));
    }
  }
  return {{"reduce_scatter_v",
           [=](Communicator& comm, const void* send, void* recv) {
             return comm.StartReduceScatterV(send, recv, counts, kDType, ReduceOp::kSum);
           }},
          {"all_gather_v",
           [=](Communicator& comm, const void* send, void* recv) {
             return comm.StartAllGatherV(send, recv, counts, kDType);
           }},
          {"all_to_all_v", [=](Communicator& comm, const void* send, void* recv) {
             const int r = comm.rank().value();
             return comm.StartAllToAllV(send, to[r], recv, from[r], kDType);
           }}};
}

class LargerBits final : public ReduceFunction {
 public:
  bool Combine(void* result, const void* a, const void* b, int64_t count, DType) override {
    const auto* const first = static_cast<const uint16_t*>(a);
    const auto* const second = static_cast<const uint16_t*>(b);
    for (int64_t i = 0; i < count; ++i) {
      static_cast<uint16_t*>(result)[i] = std::max(first[i], second[i]);
    }
    return true;
  }
  uint32_t number() const override { return 1; }
  bool any_order() const override { return true; }
};

absl::StatusOr<Operation> StartByFunction(Communicator& comm, const void* send, void* recv) {
  static LargerBits larger;
  return comm.StartAllReduce(send, recv, kCount, kDType, ReduceOp::kFunction,
                             {.function = &larger});
}

absl::StatusOr<Operation> StartRingOfMessages(Communicator& comm, const void* send, void* recv) {
  const int world = comm.world_size();
  const int r = comm.rank().value();
  // Its end is not waited for: that of the receive it meets says as much.
  const auto sent = comm.StartSend(send, kCount, kDType, Rank((r + 1) % world));
  if (!sent.ok()) return sent.status();
  return comm.StartRecv(recv, kCount, kDType, Rank((r + world - 1) % world));
}

absl::StatusOr<Operation> StartGroup(Communicator& comm, const void* send, void* recv) {
  Call calls[4];
  for (int i = 0; i < 4; ++i) {
    calls[i].collective = i < 3 ? Collective::kAllReduce : Collective::kAllGather;
    calls[i].dtype = kDType;
    calls[i].count = 100;
    calls[i].send = static_cast<const uint16_t*>(send) + 100 * i;
    calls[i].recv = static_cast<uint16_t*>(recv) + 100 * i;
  }
  return comm.StartGroup(calls);
}

}  // namespace

std::vector<SteadyCall> SteadyCalls(int world) {
  std::vector<SteadyCall> calls;
  for (Collective collective : kAllCollectives) {
    calls.push_back(Plain(collective, std::string(NameOf(collective))));
  }
  calls.push_back(Plain(Collective::kReduceScatter, "reduce_scatter in tiles", 100));
  calls.push_back(Plain(Collective::kAllGather, "all_gather in tiles", 100));
  for (SteadyCall& call : VariantsWithCounts(world)) calls.push_back(std::move(call));
  calls.push_back({"all_reduce by a function", StartByFunction});
  calls.push_back({"send and recv", StartRingOfMessages});
  calls.push_back({"group", StartGroup});
  return calls;
}

}  // namespace rz::testing
