// Random collectives against the sequential oracle, over SimWorld: every case draws the world, the
// operations, their dtypes, counts, tiles and places, the numeric mode, algorithms, slices, and how
// messages travel, from one seed.
//
// RZ_PROPERTY_SEED=n runs that case alone.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "collectives/testing/oracle.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::Bytes;
using ::rz::testing::IsOk;
using ::rz::testing::RandomElements;
using ::rz::testing::ReduceAll;
using ::rz::testing::Rounding;
using ::rz::testing::ShardOf;
using ::rz::testing::SimJob;

constexpr uint64_t kCases = 3000;
constexpr int kLargestWorld = 16;
constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0x5a};

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier };
constexpr int kKinds = 5;

// What one operation of a case is, on every rank.
struct OperationCase {
  Kind kind = Kind::kBarrier;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int64_t count = 0;
  int64_t tile_chunk = 0;
  bool in_place = false;
  int root = 0;
};

struct Case {
  uint64_t seed = 0;
  int world = 1;
  SimOptions sim;
  CommunicatorOptions options;
  std::string_view reduction;  // the algorithm of reductions, "" for the default
  std::vector<OperationCase> operations;

  std::string ToString() const {
    std::string text = absl::StrCat(
        "seed ", seed, ", world ", world, ", mode ", std::string(NameOf(options.numeric_mode)),
        ", algorithms '", options.algorithms, "', slice ", options.slice_bytes, ", lanes ",
        options.lanes_in_flight, ", send mode ", static_cast<int>(sim.send_mode));
    for (const OperationCase& o : operations) {
      absl::StrAppend(&text, "; kind ", static_cast<int>(o.kind), " ", std::string(NameOf(o.dtype)),
                      " ", std::string(NameOf(o.op)), " count ", o.count, " tile_chunk ",
                      o.tile_chunk, " in_place ", o.in_place, " root ", o.root);
    }
    return text;
  }
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int64_t Below(int64_t bound) { return static_cast<int64_t>(random_() % bound); }
  bool OneIn(int n) { return Below(n) == 0; }
  template <typename T>
  T Of(std::initializer_list<T> values) {
    return *(values.begin() + Below(static_cast<int64_t>(values.size())));
  }

  int64_t Count(int world) {
    switch (Below(6)) {
      case 0:
        return 0;
      case 1:
        return 1;
      case 2:
        return Below(world);
      case 3:
        return Of<int64_t>({97, 211, 499});
      default:
        return Below(600);
    }
  }

  OperationCase Operation(int world) {
    OperationCase operation;
    operation.kind = static_cast<Kind>(Below(kKinds));
    operation.dtype = kAllDTypes[Below(std::size(kAllDTypes))];
    do {
      operation.op = kAllReduceOps[Below(std::size(kAllReduceOps))];
    } while (operation.op == ReduceOp::kAvg && !IsFloating(operation.dtype));
    operation.count = Count(world);
    operation.tile_chunk = OneIn(2) ? 0 : 1 + Below(40);
    operation.root = static_cast<int>(Below(world));
    const bool one_tile =
        ChunkLayout(operation.count, world, operation.tile_chunk).tile_count() <= 1;
    operation.in_place = OneIn(2) && (one_tile || operation.kind == Kind::kAllReduce);
    return operation;
  }

 private:
  std::mt19937_64 random_;
};

Case DrawCase(uint64_t seed) {
  Draw draw(seed);
  Case c;
  c.seed = seed;
  c.world = 1 + static_cast<int>(draw.Below(kLargestWorld));
  c.sim.seed = seed;
  c.sim.send_mode = draw.Of({SendMode::kEager, SendMode::kRendezvous, SendMode::kMixed});
  c.options.numeric_mode = draw.Of({NumericMode::kDeterministic, NumericMode::kFast});
  c.options.slice_bytes = draw.Of<size_t>({64, 136, 1024, 256 << 10});
  c.options.lanes_in_flight = static_cast<int>(1 + draw.Below(5));
  c.reduction = draw.Of<std::string_view>({"", "ring", "pairwise", "ring_wire"});
  if (c.reduction == "ring_wire" && c.options.numeric_mode == NumericMode::kDeterministic) {
    c.reduction = "";
  }
  // In fast mode the result depends on the algorithm, so the test says which.
  if (c.options.numeric_mode == NumericMode::kFast && c.reduction.empty()) c.reduction = "ring";
  std::string& algorithms = c.options.algorithms;
  if (!c.reduction.empty()) {
    const std::string name(c.reduction);
    algorithms = absl::StrCat("reduce_scatter:", name, ",all_reduce:", name);
  }
  if (draw.OneIn(2)) {
    absl::StrAppend(&algorithms, algorithms.empty() ? "" : ",",
                    "broadcast:", draw.OneIn(2) ? "chain" : "binomial");
  }
  const int64_t operations = 1 + draw.Below(3);
  for (int64_t i = 0; i < operations; ++i) c.operations.push_back(draw.Operation(c.world));
  return c;
}

// How often the case's reductions of 16-bit elements round. Fast mode's own choice is the ring.
Rounding RoundingOf(const Case& c) {
  const bool fast_ring = c.options.numeric_mode == NumericMode::kFast && c.reduction != "pairwise";
  return fast_ring ? Rounding::kEveryHop : Rounding::kOnce;
}

// One operation of one rank: memory with guards around it, where its buffers lie, what must be
// there at the end.
class RankCall {
 public:
  RankCall(const OperationCase& operation, Bytes send, Bytes expected, int64_t own_offset)
      : operation_(operation), send_(std::move(send)), expected_(std::move(expected)) {
    const int64_t own_bytes = own_offset * static_cast<int64_t>(SizeOf(operation.dtype));
    // In place, the smaller buffer lies inside the larger one.
    send_at_ = recv_at_ = kGuardBytes;
    if (!operation.in_place) {
      recv_at_ = kGuardBytes + send_.size() + kGuardBytes;
    } else if (operation.kind == Kind::kReduceScatter) {
      recv_at_ += own_bytes;
    } else if (operation.kind == Kind::kAllGather) {
      send_at_ += own_bytes;
    }
    const size_t end = std::max(send_at_ + send_.size(), recv_at_ + expected_.size());
    memory_.assign(end + kGuardBytes, kGuard);
    std::copy(send_.begin(), send_.end(), memory_.begin() + static_cast<ptrdiff_t>(send_at_));
  }

  absl::StatusOr<Operation> Start(Communicator& comm) {
    const void* send = memory_.data() + send_at_;
    void* recv = memory_.data() + recv_at_;
    const OperationCase& o = operation_;
    const CallOptions call{o.tile_chunk};
    switch (o.kind) {
      case Kind::kAllReduce:
        return comm.StartAllReduce(send, recv, o.count, o.dtype, o.op, call);
      case Kind::kReduceScatter:
        return comm.StartReduceScatter(send, recv, o.count, o.dtype, o.op, call);
      case Kind::kAllGather:
        return comm.StartAllGather(send, recv, o.count, o.dtype, call);
      case Kind::kBroadcast:
        return comm.StartBroadcast(recv, o.count, o.dtype, Rank(o.root));
      case Kind::kBarrier:
        return comm.StartBarrier();
    }
    return absl::InternalError("unknown kind");
  }

  // "" where everything is as it must be.
  std::string Check() const {
    const auto recv = memory_.begin() + static_cast<ptrdiff_t>(recv_at_);
    const auto recv_end = recv + static_cast<ptrdiff_t>(expected_.size());
    const auto wrong = std::mismatch(expected_.begin(), expected_.end(), recv);
    if (wrong.first != expected_.end()) {
      return absl::StrCat("byte ", wrong.first - expected_.begin(), " of ", expected_.size(),
                          " is wrong");
    }
    if (!operation_.in_place) {
      const auto send = memory_.begin() + static_cast<ptrdiff_t>(send_at_);
      if (!std::equal(send_.begin(), send_.end(), send)) return "the input was changed";
    }
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    const auto last = memory_.end() - kGuardBytes;
    if (!std::all_of(memory_.begin(), memory_.begin() + kGuardBytes, is_guard) ||
        !std::all_of(std::max(recv_end, last), memory_.end(), is_guard)) {
      return "memory outside the buffers was written";
    }
    return "";
  }

 private:
  OperationCase operation_;
  Bytes send_;
  Bytes expected_;
  size_t send_at_;
  size_t recv_at_;
  Bytes memory_;
};

std::vector<std::unique_ptr<RankCall>> MakeCalls(const Case& c, OperationCase operation,
                                                 uint64_t seed) {
  const ChunkLayout layout(operation.count, c.world, operation.tile_chunk);
  const bool barrier = operation.kind == Kind::kBarrier;
  if (operation.kind == Kind::kBroadcast || barrier) operation.in_place = true;
  std::vector<Bytes> inputs;
  for (int r = 0; r < c.world; ++r) {
    inputs.push_back(
        RandomElements(operation.dtype, barrier ? 0 : operation.count, seed * kLargestWorld + r));
  }
  Bytes reduced;
  if (operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduceScatter) {
    reduced = ReduceAll(inputs, layout, operation.dtype, operation.op, RoundingOf(c));
  }
  std::vector<std::unique_ptr<RankCall>> calls;
  for (int r = 0; r < c.world; ++r) {
    Bytes send = inputs[r];
    Bytes expected;
    switch (operation.kind) {
      case Kind::kAllReduce:
        expected = reduced;
        break;
      case Kind::kReduceScatter:
        expected = ShardOf(reduced, layout, Rank(r), operation.dtype);
        break;
      case Kind::kAllGather:
        send = ShardOf(inputs[0], layout, Rank(r), operation.dtype);
        expected = inputs[0];
        break;
      case Kind::kBroadcast:
        expected = inputs[operation.root];
        break;
      case Kind::kBarrier:
        break;
    }
    const int64_t own = layout.tile_count() == 0 ? 0 : layout.Chunk(0, Rank(r)).offset;
    calls.push_back(
        std::make_unique<RankCall>(operation, std::move(send), std::move(expected), own));
  }
  return calls;
}

void RunCase(uint64_t seed) {
  const Case c = DrawCase(seed);
  SCOPED_TRACE(c.ToString());
  std::vector<std::vector<std::unique_ptr<RankCall>>> calls;
  for (size_t i = 0; i < c.operations.size(); ++i) {
    calls.push_back(MakeCalls(c, c.operations[i], seed + i));
  }
  SimJob job(c.world, c.sim, c.options);
  ASSERT_THAT(job.Run(static_cast<int>(calls.size()),
                      [&](int rank, int i) { return calls[i][rank]->Start(job.comm(rank)); }),
              IsOk());
  for (int r = 0; r < c.world; ++r) {
    ASSERT_THAT(job.results()[r], IsOk()) << "rank " << r;
    for (size_t i = 0; i < calls.size(); ++i) {
      ASSERT_EQ(calls[i][r]->Check(), "") << "rank " << r << ", operation " << i;
    }
  }
}

TEST(CollectivePropertyTest, RandomCollectivesMatchTheOracleBitForBit) {
  if (const char* seed = std::getenv("RZ_PROPERTY_SEED"); seed != nullptr) {
    RunCase(std::strtoull(seed, nullptr, 10));
    return;
  }
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RunCase(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace rz
