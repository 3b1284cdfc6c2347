// Ranks that do not make the same call: for every pair of different kinds, dtypes, counts, ops,
// roots, orders and options, every rank with an operation under way ends with an error that names
// two ranks and both calls, and one that had returned ends so at its next call. Time decides
// nothing: a deadlock of the simulated world would fail the test.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::SimJob;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kSeeds = 4;
constexpr int64_t kMostElements = 40'000;
constexpr size_t kMemory = kMostElements * sizeof(double);
constexpr size_t kGuard = 64;
constexpr std::byte kGuardByte{0x5a};

struct Variant {
  Collective kind = Collective::kAllReduce;
  int64_t count = 300;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  CallOptions options = {};
  std::vector<int64_t> counts = {};  // of a v variant
};

// As the verdict words it, as far as it tells calls of one kind apart.
std::string Words(const Variant& variant) {
  std::string text(NameOf(variant.kind));
  if (variant.kind == Collective::kBarrier) return text;
  int64_t total = variant.count;
  for (int64_t count : variant.counts) total += count;
  absl::StrAppend(&text, " of ", total, " ", std::string(NameOf(variant.dtype)));
  if (IsReduction(variant.kind)) absl::StrAppend(&text, " ", std::string(NameOf(variant.op)));
  if (HasRoot(variant.kind)) {
    const bool towards = variant.kind == Collective::kReduce || variant.kind == Collective::kGather;
    absl::StrAppend(&text, towards ? " to root " : " from root ", variant.root);
  }
  return text;
}

// A job whose ranks call what they are told, in buffers that are guarded on both sides.
class Ranks {
 public:
  Ranks(int world, uint64_t seed, const CommunicatorOptions& options, bool shares_memory = false)
      : job_(world, {.seed = seed}, options) {
    if (shares_memory) {
      EXPECT_TRUE(job_.ShareMemory().value());
      calls_before_ = kCallsOfSharing;
    }
    for (int r = 0; r < world; ++r) {
      send_.emplace_back(kMemory, std::byte{0});
      recv_.emplace_back(kGuard + kMemory + kGuard, kGuardByte);
    }
  }

  absl::StatusOr<Operation> Start(int rank, const Variant& v) {
    Communicator& comm = job_.comm(rank);
    void* const send = send_[rank].data();
    void* const recv = recv_[rank].data() + kGuard;
    const Rank root(v.root);
    if (!v.counts.empty()) {
      return comm.StartReduceScatterV(send, recv, v.counts, v.dtype, v.op, v.options);
    }
    switch (v.kind) {
      case Collective::kAllReduce:
        return comm.StartAllReduce(send, recv, v.count, v.dtype, v.op, v.options);
      case Collective::kReduceScatter:
        return comm.StartReduceScatter(send, recv, v.count, v.dtype, v.op, v.options);
      case Collective::kAllGather:
        return comm.StartAllGather(send, recv, v.count, v.dtype, v.options);
      case Collective::kBroadcast:
        return comm.StartBroadcast(recv, v.count, v.dtype, root);
      case Collective::kReduce:
        return comm.StartReduce(send, recv, v.count, v.dtype, v.op, root, v.options);
      case Collective::kAllToAll:
        return comm.StartAllToAll(send, recv, v.count, v.dtype);
      case Collective::kGather:
        return comm.StartGather(send, recv, v.count, v.dtype, root, v.options);
      case Collective::kScatter:
        return comm.StartScatter(send, recv, v.count, v.dtype, root, v.options);
      case Collective::kBarrier:
        return comm.StartBarrier();
    }
    return absl::InternalError("no such kind");
  }

  // Every rank calls variant_of(rank, i) for i < calls.
  absl::Status Run(int calls, const std::function<Variant(int, int)>& variant_of) {
    return job_.Run(calls, [&](int r, int i) { return Start(r, variant_of(r, i)); });
  }

  SimJob& job() { return job_; }
  const absl::Status& result(int rank) const { return job_.results()[rank]; }

  // "operation N: ", N counting the calls of Run from 1.
  std::string OperationNamed(int64_t number) const {
    return absl::StrCat("operation ", calls_before_ + number, ": ");
  }

  void ExpectGuards() const {
    for (const std::vector<std::byte>& memory : recv_) {
      for (size_t i = 0; i < kGuard; ++i) {
        ASSERT_EQ(memory[i], kGuardByte);
        ASSERT_EQ(memory[memory.size() - 1 - i], kGuardByte);
      }
    }
  }

 private:
  // A gathering of keys and a vote.
  static constexpr int64_t kCallsOfSharing = 2;

  SimJob job_;
  int64_t calls_before_ = 0;
  std::vector<std::vector<std::byte>> send_;
  std::vector<std::vector<std::byte>> recv_;
};

struct Pair {
  Variant usual;
  Variant other;
};

// `deviators` call pair.other, the rest pair.usual, after `before` calls that match.
void ExpectVerdict(const Pair& pair, int world, bool shares_memory, int before, uint64_t seed,
                   const std::vector<bool>& deviates) {
  SCOPED_TRACE(::testing::Message()
               << Words(pair.usual) << " and " << Words(pair.other) << ", world " << world
               << (shares_memory ? " sharing memory" : "") << ", after " << before
               << " calls, seed " << seed);
  Ranks ranks(world, seed, {}, shares_memory);
  if (before > 0) {
    ASSERT_OK(ranks.Run(before, [](int, int i) { return Variant{.count = i % 7}; }));
    for (int r = 0; r < world; ++r) ASSERT_OK(ranks.result(r));
  }
  const auto told = StatusIs(absl::StatusCode::kFailedPrecondition,
                             AllOf(HasSubstr(ranks.OperationNamed(before + 1) + "rank "),
                                   HasSubstr(absl::StrCat("called ", Words(pair.usual))),
                                   HasSubstr(absl::StrCat("called ", Words(pair.other)))));
  ASSERT_OK(ranks.Run(1, [&](int r, int) { return deviates[r] ? pair.other : pair.usual; }));
  for (int r = 0; r < world; ++r) {
    // Some need nobody: a root that has sent, a leaf of a reduction.
    if (ranks.result(r).ok()) continue;
    EXPECT_THAT(ranks.result(r), told) << "rank " << r;
  }
  ASSERT_OK(ranks.Run(1, [](int, int) { return Variant{}; }));
  for (int r = 0; r < world; ++r) {
    EXPECT_THAT(ranks.result(r), told) << "at the next call of rank " << r;
    EXPECT_THAT(ranks.job().comm(r).status(), told);
  }
  ranks.ExpectGuards();
}

struct World {
  int size;
  bool shares_memory;
};

class MismatchTest : public ::testing::TestWithParam<World> {
 protected:
  int world() const { return GetParam().size; }
  bool shares_memory() const { return GetParam().shares_memory; }

  // One rank deviates, drawn by the seed; after no calls and after forty.
  void ExpectVerdicts(const Pair& pair) {
    // What is shared is seen by all alike: fewer orders matter.
    const uint64_t seeds = shares_memory() ? kSeeds / 2 : kSeeds;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      std::vector<bool> deviates(world(), false);
      deviates[(seed * 7 + static_cast<uint64_t>(pair.other.count)) % world()] = true;
      for (int before : {0, 40}) {
        ExpectVerdict(pair, world(), shares_memory(), before, seed, deviates);
        ExpectVerdict({pair.other, pair.usual}, world(), shares_memory(), before, seed, deviates);
        if (HasFailure()) return;
      }
    }
  }
};

TEST_P(MismatchTest, Kinds) {
  for (Collective a : kAllCollectives) {
    for (Collective b : kAllCollectives) {
      if (a < b) ExpectVerdicts({{.kind = a}, {.kind = b}});
    }
  }
}

TEST_P(MismatchTest, Dtypes) {
  for (DType a : kAllDTypes) {
    for (DType b : kAllDTypes) {
      if (a < b) ExpectVerdicts({{.dtype = a}, {.dtype = b}});
    }
  }
  for (Collective kind : kAllCollectives) {
    if (kind == Collective::kBarrier) continue;
    // Of one size: nothing but the descriptor tells them apart.
    ExpectVerdicts(
        {{.kind = kind, .dtype = DType::kFloat32}, {.kind = kind, .dtype = DType::kInt32}});
  }
}

TEST_P(MismatchTest, Counts) {
  for (Collective kind : kAllCollectives) {
    if (kind == Collective::kBarrier) continue;
    for (auto [a, b] : {std::pair<int64_t, int64_t>{1000, 1001}, {0, 5}, {1, 2}, {7, 7000}}) {
      ExpectVerdicts({{.kind = kind, .count = a}, {.kind = kind, .count = b}});
    }
  }
}

TEST_P(MismatchTest, Ops) {
  for (Collective kind :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    for (ReduceOp a : kAllReduceOps) {
      for (ReduceOp b : kAllReduceOps) {
        if (a < b) ExpectVerdicts({{.kind = kind, .op = a}, {.kind = kind, .op = b}});
      }
    }
  }
}

TEST_P(MismatchTest, Roots) {
  for (Collective kind : kAllCollectives) {
    if (!HasRoot(kind)) continue;
    for (int a = 0; a < world(); ++a) {
      for (int b = a + 1; b < world(); ++b) {
        ExpectVerdicts({{.kind = kind, .root = a}, {.kind = kind, .root = b}});
      }
    }
  }
}

TEST_P(MismatchTest, WhatTheShortWordsDoNotShow) {
  ExpectVerdicts({{.options = {.tile_chunk = 0}}, {.options = {.tile_chunk = 10}}});
  ExpectVerdicts({{.dtype = DType::kBFloat16},
                  {.dtype = DType::kBFloat16, .options = {.numeric_mode = NumericMode::kFast}}});
  Variant usual{.kind = Collective::kReduceScatter, .count = 0};
  usual.counts.assign(world(), 10);
  Variant other = usual;
  other.counts.front() = 9;
  other.counts.back() = 11;
  ExpectVerdicts({usual, other});
}

TEST_P(MismatchTest, HalfOfTheRanksCallSomethingElse) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<bool> deviates(world());
    for (int r = 0; r < world(); ++r) deviates[r] = (seed >> r & 1) != 0;
    const int number = static_cast<int>(std::count(deviates.begin(), deviates.end(), true));
    if (number == 0 || number == world()) continue;
    ExpectVerdict({{.kind = Collective::kBroadcast}, {.kind = Collective::kReduce}}, world(),
                  shares_memory(), 3, seed, deviates);
    ExpectVerdict({{.count = 10}, {.kind = Collective::kBarrier}}, world(), shares_memory(), 3,
                  seed, deviates);
  }
}

TEST_P(MismatchTest, Orders) {
  const std::vector<Variant> calls = {{.count = 10},
                                      {.kind = Collective::kBroadcast, .count = 10},
                                      {.kind = Collective::kBarrier},
                                      {.count = 11}};
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (size_t swapped = 0; swapped + 1 < calls.size(); ++swapped) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", swapped " << swapped);
      Ranks ranks(world(), seed, {}, shares_memory());
      const int deviator = static_cast<int>(seed) % world();
      ASSERT_OK(ranks.Run(static_cast<int>(calls.size()), [&](int r, int i) {
        const size_t at = static_cast<size_t>(i);
        if (r != deviator || at < swapped || at > swapped + 1) return calls[at];
        return calls[swapped + (at == swapped ? 1 : 0)];
      }));
      for (int r = 0; r < world(); ++r) {
        EXPECT_THAT(
            ranks.result(r),
            StatusIs(
                absl::StatusCode::kFailedPrecondition,
                AllOf(HasSubstr(ranks.OperationNamed(static_cast<int64_t>(swapped) + 1) + "rank "),
                      HasSubstr(absl::StrCat("called ", Words(calls[swapped]))),
                      HasSubstr(absl::StrCat("rank ", deviator, " called ",
                                             Words(calls[swapped + 1]))))));
      }
    }
  }
}

TEST_P(MismatchTest, ARankThatSkipsACall) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Ranks ranks(world(), seed, {}, shares_memory());
    const int deviator = static_cast<int>(seed) % world();
    ASSERT_OK(ranks.Run(5, [&](int r, int i) {
      return Variant{.count = 100 + i + (r == deviator && i >= 2 ? 1 : 0)};
    }));
    for (int r = 0; r < world(); ++r) {
      EXPECT_THAT(ranks.result(r), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            AllOf(HasSubstr(ranks.OperationNamed(3)),
                                                  HasSubstr("all_reduce of 102 "),
                                                  HasSubstr("all_reduce of 103 "))));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, MismatchTest,
                         ::testing::Values(World{2, false}, World{3, false}, World{5, false},
                                           World{2, true}, World{3, true}, World{5, true}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.shares_memory ? "Shared" : "Messages",
                                               info.param.size);
                         });

TEST(MismatchOptionsTest, OptionsThatAllRanksMustShareAreCompared) {
  SimWorld world(2, {});
  std::vector<std::unique_ptr<Communicator>> comms;
  for (int r = 0; r < 2; ++r) {
    CommunicatorOptions options;
    options.clock = world.clock();
    options.slice_bytes = r == 0 ? 1024 : 2048;
    ASSERT_OK_AND_ASSIGN(auto comm, Communicator::Create(world.transport(Rank(r)), options));
    comms.push_back(std::move(comm));
  }
  std::vector<float> data(2000);
  std::vector<Operation> operations;
  for (auto& comm : comms) {
    ASSERT_OK_AND_ASSIGN(
        Operation operation,
        comm->StartAllReduce(data.data(), data.data(), 1000, DType::kFloat32, ReduceOp::kSum));
    operations.push_back(operation);
  }
  ASSERT_OK(
      world.Run({{[&] { return operations[0].Poll(); }, [&] { return operations[1].Poll(); }}}));
  for (const Operation& operation : operations) {
    EXPECT_THAT(operation.status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("slices of 1024 bytes"), HasSubstr("slices of 2048"))));
  }
}

// Each communicator compares its own calls alone, so here the deadline has to end it, with words
// that say who has not called.
TEST(MismatchOptionsTest, TheOrderAcrossCommunicatorsIsEndedByTheDeadlineOnly) {
  SimWorld world(2, {});
  std::vector<std::unique_ptr<Communicator>> comms;
  std::vector<Operation> operations;
  std::vector<float> data(4);
  for (uint32_t r = 0; r < 2; ++r) {
    for (uint32_t id = 0; id < 2; ++id) {
      CommunicatorOptions options;
      options.clock = world.clock();
      options.id = id;
      ASSERT_OK_AND_ASSIGN(
          auto comm, Communicator::Create(world.transport(Rank(static_cast<int>(r))), options));
      comms.push_back(std::move(comm));
    }
    // Rank 0 calls on communicator 0 first, rank 1 on communicator 1.
    ASSERT_OK_AND_ASSIGN(Operation operation, comms[2 * r + r]->StartBarrier());
    operations.push_back(operation);
  }
  EXPECT_THAT(
      world.Run({{[&] { return operations[0].Poll(); }, [&] { return operations[1].Poll(); }}}),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("deadlock")));
  for (const auto& comm : comms) EXPECT_OK(comm->status());
  EXPECT_THAT(operations[0].Wait(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 1 has not called operation 1")));
}

TEST(MismatchOptionsTest, WithoutTheCheckEqualCallsWork) {
  CommunicatorOptions options;
  options.check_calls = false;
  Ranks ranks(3, 1, options);
  ASSERT_OK(ranks.Run(20, [](int, int i) { return Variant{.count = i * 10}; }));
  for (int r = 0; r < 3; ++r) {
    EXPECT_OK(ranks.result(r));
    EXPECT_EQ(ranks.job().comm(r).wire_counters().control, 0);
  }
}

}  // namespace
}  // namespace rz
