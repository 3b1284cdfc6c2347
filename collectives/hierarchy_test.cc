// Ranks on several hosts: what is chosen, what leaves a host, and what ends a call.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::SimJob;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kSlotBytes = 4096;
constexpr int kPolls = 1000;

CommunicatorOptions Fast(const std::string& algorithms = "") {
  CommunicatorOptions options;
  options.numeric_mode = NumericMode::kFast;
  options.algorithms = algorithms;
  options.shared_slot_bytes = kSlotBytes;
  return options;
}

class Job : public SimJob {
 public:
  Job(const std::vector<int>& hosts, const CommunicatorOptions& options, uint64_t seed = 1)
      : SimJob(static_cast<int>(hosts.size()), {.seed = seed, .idle_polls = kPolls, .hosts = hosts},
               options),
        hosts_(hosts) {
    EXPECT_FALSE(ShareMemory().value());
  }

  // Payload that has left a host so far.
  int64_t LeftHost(int host) {
    int64_t bytes = 0;
    for (int r = 0; r < size(); ++r) {
      if (hosts_[r] == host) bytes += comm(r).wire_counters().between_hosts;
    }
    return bytes;
  }

 private:
  const std::vector<int> hosts_;
};

// Float sums of 1s, all_reduced.
void AllReduce(Job& job, int64_t count) {
  std::vector<std::vector<float>> values(job.size(), std::vector<float>(count, 1));
  ASSERT_OK(job.Run(1, [&](int r, int) {
    return job.comm(r).StartAllReduce(values[r].data(), values[r].data(), count, DType::kFloat32,
                                      ReduceOp::kSum);
  }));
  for (int r = 0; r < job.size(); ++r) {
    ASSERT_OK(job.results()[r]);
    for (float value : values[r]) ASSERT_EQ(value, job.size());
  }
}

TEST(HierarchyTest, AHostSendsOfAnAllReduceWhatOthersNeedOnce) {
  constexpr int64_t kCount = 48'000;
  constexpr int64_t kBytes = kCount * int64_t{sizeof(float)};
  const struct {
    std::vector<int> hosts;
    int count;
  } kCases[] = {{{0, 0, 1, 1}, 2},
                {{0, 1, 0, 1}, 2},
                {{0, 0, 1, 1, 1}, 2},
                {{0, 1, 1, 1, 1}, 2},
                {{0, 0, 1, 1, 2, 2}, 3}};
  for (const auto& [hosts, count] : kCases) {
    SCOPED_TRACE(::testing::PrintToString(hosts));
    Job job(hosts, Fast("all_reduce:hierarchical"));
    const int64_t before = job.LeftHost(0);
    AllReduce(job, kCount);
    EXPECT_EQ(job.LeftHost(0) - before, 2 * (count - 1) * kBytes / count);
  }
}

TEST(HierarchyTest, FlatCallsAreCountedToo) {
  constexpr int64_t kCount = 4800;
  constexpr int64_t kRing = 2 * 3 * kCount * int64_t{sizeof(float)} / 4;  // of a rank
  // Every hop of the ring leaves a host, and every second one.
  for (const auto& [hosts, leave] :
       {std::pair(std::vector<int>{0, 1, 0, 1}, 2), std::pair(std::vector<int>{0, 0, 1, 1}, 1)}) {
    Job job(hosts, Fast("all_reduce:ring"));
    const int64_t before = job.LeftHost(0);
    AllReduce(job, kCount);
    EXPECT_EQ(job.LeftHost(0) - before, leave * kRing);
  }
}

TEST(HierarchyTest, SlicesGatherAndScatterWhatOthersNeedOnce) {
  constexpr int64_t kCount = 6000;  // of a rank
  constexpr int64_t kHostBytes = 2 * kCount * int64_t{sizeof(int32_t)};
  for (const std::vector<int>& hosts :
       {std::vector<int>{0, 0, 1, 1}, std::vector<int>{1, 0, 0, 1}}) {
    CommunicatorOptions options = Fast("reduce_scatter:hierarchical,all_gather:hierarchical");
    options.slice_bytes = 4096;
    Job job(hosts, options);
    const int64_t before = job.LeftHost(0);
    std::vector<std::vector<int32_t>> whole(4, std::vector<int32_t>(4 * kCount, 1));
    std::vector<std::vector<int32_t>> shard(4, std::vector<int32_t>(kCount));
    ASSERT_OK(job.Run(1, [&](int r, int) {
      return job.comm(r).StartReduceScatter(whole[r].data(), shard[r].data(), 4 * kCount,
                                            DType::kInt32, ReduceOp::kSum);
    }));
    EXPECT_EQ(job.LeftHost(0) - before, kHostBytes);
    ASSERT_OK(job.Run(1, [&](int r, int) {
      return job.comm(r).StartAllGather(shard[r].data(), whole[r].data(), 4 * kCount,
                                        DType::kInt32);
    }));
    EXPECT_EQ(job.LeftHost(0) - before, 2 * kHostBytes);
    for (int r = 0; r < 4; ++r) EXPECT_EQ(whole[r], std::vector<int32_t>(4 * kCount, 4));
  }
}

TEST(HierarchyTest, AveragesDivideOnceByAllRanks) {
  // Divided by 2 and 3 apart, or by 2 twice, this would round.
  const std::vector<int> hosts = {0, 0, 1, 1, 1};
  Job job(hosts, Fast("all_reduce:hierarchical"));
  std::vector<float> values(5);
  ASSERT_OK(job.Run(1, [&](int r, int) {
    values[r] = r == 0 ? 3 : 7;
    return job.comm(r).StartAllReduce(&values[r], &values[r], 1, DType::kFloat32, ReduceOp::kAvg);
  }));
  for (float value : values) EXPECT_EQ(value, 31.0f / 5.0f);
}

TEST(HierarchyTest, IsChosenWhereItPaysAndTheModeAllowsIt) {
  Job job({0, 0, 1, 1}, Fast());
  const auto explain = [&](Collective collective, DType dtype, NumericMode mode) {
    return *job.comm(0).Explain(collective, dtype, ReduceOp::kSum, 1 << 20, {.numeric_mode = mode});
  };
  constexpr NumericMode kFast = NumericMode::kFast;
  constexpr NumericMode kDeterministic = NumericMode::kDeterministic;
  for (Collective collective : {Collective::kAllReduce, Collective::kReduceScatter,
                                Collective::kAllGather, Collective::kBroadcast}) {
    EXPECT_EQ(explain(collective, DType::kFloat32, kFast).algorithm(), Algorithm::kHierarchical)
        << explain(collective, DType::kFloat32, kFast).text;
  }
  const Explanation sums = explain(Collective::kAllReduce, DType::kFloat32, kDeterministic);
  EXPECT_NE(sums.algorithm(), Algorithm::kHierarchical);
  EXPECT_THAT(sums.text, HasSubstr("hierarchical: "));
  EXPECT_THAT(sums.text, HasSubstr("its order of summation is not that of deterministic mode"));
  EXPECT_EQ(explain(Collective::kAllReduce, DType::kInt32, kDeterministic).algorithm(),
            Algorithm::kHierarchical);
  ASSERT_OK_AND_ASSIGN(const Explanation in_tiles,
                       job.comm(0).Explain(Collective::kAllGather, DType::kFloat32, ReduceOp::kSum,
                                           1 << 20, {.tile_chunk = 1 << 18}));
  EXPECT_NE(in_tiles.algorithm(), Algorithm::kHierarchical);
  EXPECT_THAT(in_tiles.text, HasSubstr("a call in tiles is about bytes"));
}

TEST(HierarchyTest, IsRefusedWithAReasonWhereThereIsNone) {
  const CommunicatorOptions options = Fast("all_reduce:hierarchical");
  const auto refusal = [](Communicator& comm) {
    float value = 1;
    return comm.StartAllReduce(&value, &value, 1, DType::kFloat32, ReduceOp::kSum).status();
  };
  SimJob unknown(2, {}, options);
  EXPECT_THAT(refusal(unknown.comm(0)), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("not known which ranks share a host")));
  SimJob one_host(2, {}, options);
  ASSERT_TRUE(one_host.ShareMemory().value());
  EXPECT_THAT(refusal(one_host.comm(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("all ranks are on one host")));
  Job apart({0, 1}, options);
  EXPECT_THAT(refusal(apart.comm(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no host has two ranks")));
  CommunicatorOptions deterministic = options;
  deterministic.numeric_mode = NumericMode::kDeterministic;
  SimWorld world(2, {});
  EXPECT_THAT(Communicator::Create(world.transport(Rank(0)), deterministic),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("deterministic mode")));
}

TEST(HierarchyTest, BuffersAreReachedWithinAHost) {
  Job job({0, 0, 1, 1}, Fast());
  ASSERT_OK_AND_ASSIGN(const CommunicatorBuffer buffer, job.comm(0).AllocateBuffer(10'000));
  EXPECT_TRUE(buffer.is_shared());
}

TEST(HierarchyTest, PartsOfASplitFindTheirHosts) {
  Job job({0, 0, 1, 1}, {});
  std::vector<SplitOperation> splits;
  for (int r = 0; r < 4; ++r) splits.push_back(*job.comm(r).StartSplit(r / 2, r));
  std::vector<std::function<bool()>> polls;
  for (SplitOperation& split : splits) polls.push_back([&split] { return split.Poll(); });
  ASSERT_OK(job.world().Run(polls));
  std::vector<std::unique_ptr<Communicator>> parts;
  std::vector<ShareOperation> shares;
  for (SplitOperation& split : splits) {
    parts.push_back(*split.Finish());
    shares.push_back(*parts.back()->StartShareMemory());
  }
  polls.clear();
  for (ShareOperation& share : shares) polls.push_back([&share] { return share.Poll(); });
  ASSERT_OK(job.world().Run(polls));
  for (ShareOperation& share : shares) EXPECT_TRUE(share.Finish().value());
}

TEST(HierarchyTest, DifferentCallsAreNamedByTheirRanksInTheCommunicator) {
  for (int deviates = 0; deviates < 4; ++deviates) {
    Job job({0, 0, 1, 1}, Fast("all_reduce:hierarchical"), static_cast<uint64_t>(deviates) + 1);
    std::vector<std::vector<float>> values(4, std::vector<float>(20, 1));
    ASSERT_OK(job.Run(1, [&](int r, int) {
      return job.comm(r).StartAllReduce(values[r].data(), values[r].data(), r == deviates ? 9 : 20,
                                        DType::kFloat32, ReduceOp::kSum);
    }));
    int named = 0;
    for (int r = 0; r < 4; ++r) {
      const absl::Status result = job.results()[r];
      EXPECT_FALSE(result.ok()) << "rank " << r;
      if (!absl::IsFailedPrecondition(result)) continue;
      EXPECT_THAT(std::string(result.message()), HasSubstr(absl::StrCat("rank ", deviates)));
      EXPECT_THAT(std::string(result.message()), HasSubstr("all_reduce of 9 float32"));
      ++named;
    }
    EXPECT_GT(named, 0);
  }
}

TEST(HierarchyTest, ARankThatStaysAwayIsNamedAtTheDeadline) {
  Job job({0, 0, 1, 1}, Fast("all_reduce:hierarchical"));
  std::vector<float> value(1, 1);
  ASSERT_OK_AND_ASSIGN(
      Operation operation,
      job.comm(0).StartAllReduce(value.data(), value.data(), 1, DType::kFloat32, ReduceOp::kSum));
  EXPECT_THAT(operation.Wait(absl::Seconds(5)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("(all_reduce of 1 float32 sum by hierarchical)"),
                             HasSubstr("slice 0 of 1, within the host: "),
                             HasSubstr("rank 1 has not called operation"))));
}

// Integers all_reduced in place; `victim` dies at its poll number `at`. Returns whether it did.
bool DieAt(const std::vector<int>& hosts, int64_t count, int victim, int at, int* cut_short) {
  CommunicatorOptions options = Fast("all_reduce:hierarchical");
  options.slice_bytes = 512;
  const int world = static_cast<int>(hosts.size());
  std::vector<std::vector<int32_t>> values(world, std::vector<int32_t>(count, 1));
  Job job(hosts, options, static_cast<uint64_t>(at) + 1);
  std::vector<std::optional<Operation>> operations(world);
  std::vector<absl::Status> results(world);
  std::vector<std::function<bool()>> polls;
  int polled = 0;
  for (int r = 0; r < world; ++r) {
    polls.push_back([&, r] {
      if (r == victim && polled++ == at) {
        job.world().Kill(Rank(r), /*silent=*/false);
        return true;
      }
      if (!operations[r].has_value()) {
        auto started = job.comm(r).StartAllReduce(values[r].data(), values[r].data(), count,
                                                  DType::kInt32, ReduceOp::kSum);
        results[r] = started.status();
        if (!started.ok()) return true;
        operations[r] = *started;
      }
      if (!operations[r]->Poll()) return false;
      results[r] = operations[r]->status();
      return true;
    });
  }
  // A rank that only hears of others' ends hears nothing here; a deadline is what ends it.
  const absl::Status run = job.world().Run(polls);
  if (!run.ok()) {
    EXPECT_THAT(run, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is dead")));
    for (int r = 0; r < world; ++r) job.comm(r).Abort(absl::UnavailableError("deadline"));
    EXPECT_OK(job.world().Run(polls));
  }
  const bool died = job.world().IsDead(Rank(victim));
  int named = 0;
  int failed = 0;
  for (int r = 0; r < world; ++r) {
    if (job.world().IsDead(Rank(r))) continue;
    if (results[r].ok()) {
      EXPECT_EQ(values[r], std::vector<int32_t>(count, world)) << "rank " << r;
      continue;
    }
    ++failed;
    EXPECT_THAT(results[r], StatusIs(absl::StatusCode::kUnavailable));
    named += absl::StrContains(results[r].message(), absl::StrCat("rank ", victim, " is dead"));
    EXPECT_EQ(job.comm(r).status(), results[r]);
    EXPECT_EQ(job.comm(r).StartBarrier().status(), results[r]);  // the first cause stays
  }
  if (failed > 0) {
    ++*cut_short;
    EXPECT_GE(named, 1) << ::testing::PrintToString(results);
  }
  return died;
}

TEST(HierarchyTest, DeathAtAnyMomentEndsTheOthers) {
  int cut_short = 0;
  for (const std::vector<int>& hosts :
       {std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 1, 0, 1}}) {
    for (int64_t count : {1, 2000}) {
      for (int victim = 0; victim < static_cast<int>(hosts.size()); ++victim) {
        for (int at = 0;; ++at) {
          SCOPED_TRACE(::testing::Message()
                       << count << " elements, rank " << victim << " at " << at);
          const bool died = DieAt(hosts, count, victim, at, &cut_short);
          if (HasFailure()) return;
          if (!died) break;
        }
      }
    }
  }
  EXPECT_GT(cut_short, 20);
}

}  // namespace
}  // namespace rz
