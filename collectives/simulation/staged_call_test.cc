#include "collectives/simulation/staged_call.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/communicator.h"
#include "collectives/cost_model.h"
#include "collectives/simulation/closed_formula.h"
#include "collectives/simulation/simulated_call.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/cores.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {

std::ostream& operator<<(std::ostream& os, const SimulatedTimes& times) {
  return os << times.time << " ps, " << times.messages << " messages, bytes of rank "
            << times.rank_bytes << ", host " << times.host_bytes << ", rack " << times.rack_bytes;
}

namespace {

using ::rz::testing::SimJob;
using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                       Collective::kAllGather, Collective::kBroadcast,
                                       Collective::kReduce,    Collective::kBarrier};

absl::Duration NoTime(Collective /*collective*/, int /*ranks*/, int64_t /*block_bytes*/) {
  return absl::ZeroDuration();
}

SimulatedCall CallOf(Collective collective, int world, int ranks_per_host, int64_t count) {
  SimulatedCall call;
  call.collective = collective;
  call.algorithm = Algorithm::kHierarchical;
  call.world = world;
  call.count = count;
  call.links.ranks_per_host = ranks_per_host;
  // Of this machine: communicators over SimWorld count its cores.
  call.cores_are_few = ranks_per_host > OwnCores().count;
  return call;
}

absl::StatusOr<Operation> StartCall(Communicator& comm, const SimulatedCall& call,
                                    std::vector<std::byte>& in, std::vector<std::byte>& out) {
  switch (call.collective) {
    case Collective::kAllReduce:
      return comm.StartAllReduce(in.data(), out.data(), call.count, call.dtype, ReduceOp::kSum);
    case Collective::kReduceScatter:
      return comm.StartReduceScatter(in.data(), out.data(), call.count, call.dtype, ReduceOp::kSum);
    case Collective::kAllGather:
      return comm.StartAllGather(in.data(), out.data(), call.count, call.dtype);
    case Collective::kBroadcast:
      return comm.StartBroadcast(out.data(), call.count, call.dtype, Rank(0));
    case Collective::kReduce:
      return comm.StartReduce(in.data(), out.data(), call.count, call.dtype, ReduceOp::kSum,
                              Rank(0));
    default:
      return comm.StartBarrier();
  }
}

// Communicators with hierarchies and executors, over transports, over the same links. What is done
// in shared memory takes no time there.
SimulatedTimes RealTimes(const SimulatedCall& call) {
  CommunicatorOptions options;
  options.numeric_mode = call.mode;
  options.algorithms = absl::StrCat(std::string(NameOf(call.collective)), ":hierarchical");
  options.slice_bytes = call.slice_bytes;
  options.lanes_in_flight = call.lanes_in_flight;
  options.shared_slot_bytes = 4096;
  options.check_calls = false;
  std::vector<int> hosts;
  for (int r = 0; r < call.world; ++r) hosts.push_back(r / call.links.ranks_per_host);
  SimJob job(call.world, {.idle_polls = 20, .hosts = hosts, .links = call.links}, options);
  EXPECT_FALSE(job.ShareMemory().value());
  const SimLinks& links = *job.world().links();
  SimulatedTimes before{links.now(), links.messages()};
  std::vector<int64_t> sent(call.world), left(hosts.back() + 1);
  const auto count = [&](int64_t sign) {
    for (int r = 0; r < call.world; ++r) {
      const int64_t bytes = sign * job.comm(r).wire_counters().between_hosts;
      sent[r] += bytes;
      left[hosts[r]] += bytes;
    }
  };
  count(-1);
  const size_t bytes = static_cast<size_t>(call.count) * SizeOf(call.dtype);
  std::vector<std::vector<std::byte>> in(call.world, std::vector<std::byte>(bytes));
  std::vector<std::vector<std::byte>> out = in;
  EXPECT_OK(job.Run(1, [&](int r, int) { return StartCall(job.comm(r), call, in[r], out[r]); }));
  for (const absl::Status& result : job.results()) EXPECT_OK(result);
  count(1);
  return {links.now() - before.time, links.messages() - before.messages,
          *std::max_element(sent.begin(), sent.end()), *std::max_element(left.begin(), left.end())};
}

class StagedCallTest : public ::testing::TestWithParam<Collective> {};

TEST_P(StagedCallTest, MessagesAndTimesAreThoseOfCommunicators) {
  for (const auto& [world, ranks_per_host] :
       {std::pair(4, 2), {8, 4}, {8, 2}, {7, 3}, {5, 3}, {12, 4}}) {
    for (const int64_t count : {int64_t{1}, int64_t{world} * 16, int64_t{world} * 1311 + 5}) {
      for (const int lanes : {1, 4}) {
        SimulatedCall call = CallOf(GetParam(), world, ranks_per_host, count);
        call.slice_bytes = 256;
        call.lanes_in_flight = lanes;
        call.links.latency = absl::Nanoseconds(1711);
        call.links.rank_bandwidth = 1.9e8;
        call.links.host_bandwidth = 3.1e8;
        SCOPED_TRACE(::testing::Message()
                     << world << " ranks, " << ranks_per_host << " a host, count " << count << ", "
                     << lanes << " lanes");
        ASSERT_OK_AND_ASSIGN(const SimulatedTimes simulated,
                             SimulateStages(call, {.local_time = NoTime}));
        const SimulatedTimes real = RealTimes(call);
        EXPECT_EQ(simulated.messages, real.messages);
        EXPECT_EQ(simulated.rank_bytes, real.rank_bytes);
        EXPECT_EQ(simulated.host_bytes, real.host_bytes);
        // Which column's message goes first at one moment may differ: by a few bytes' time.
        EXPECT_NEAR(simulated.time, real.time, 0.01 * real.time);
        call.links.host_bandwidth = 0;
        ASSERT_OK_AND_ASSIGN(const SimulatedTimes apart,
                             SimulateStages(call, {.local_time = NoTime}));
        EXPECT_EQ(apart, RealTimes(call));
      }
    }
  }
}

// 8 ranks a host with one interface of 50 GB/s.
SimulatedCall LargeCall(Collective collective, int world, int64_t bytes) {
  SimulatedCall call = CallOf(collective, world, 8, bytes / 4);
  call.links.host_bandwidth = 50e9;
  return call;
}

TEST_P(StagedCallTest, OneColumnStandsForAll) {
  if (!ColumnsAreAlike(LargeCall(GetParam(), 64, 1))) GTEST_SKIP() << "there is a root";
  for (const int64_t bytes : {int64_t{1} << 27, int64_t{1} << 28}) {
    for (const double bandwidth : {5e9, 50e9}) {
      SCOPED_TRACE(::testing::Message() << bytes << " bytes, " << bandwidth);
      SimulatedCall call = LargeCall(GetParam(), 64, bytes);
      call.links.host_bandwidth = bandwidth;
      ASSERT_OK_AND_ASSIGN(const SimulatedTimes all, SimulateStages(call, {}));
      ASSERT_OK_AND_ASSIGN(const SimulatedTimes one, SimulateStages(call, {.one_column = true}));
      EXPECT_NEAR(one.time, all.time, 0.03 * all.time);
      EXPECT_EQ(one.rank_bytes, all.rank_bytes);
      EXPECT_EQ(one.host_bytes, all.host_bytes);
      EXPECT_EQ(one.messages, all.messages);
    }
  }
}

TEST(StagedTimesTest, AHostSendsWhatOthersNeedOnce) {
  constexpr int64_t kBytes = int64_t{1} << 26;
  for (const int hosts : {8, 64}) {
    const auto left = [&](Collective collective) {
      return SimulateStages(LargeCall(collective, hosts * 8, kBytes), {})->host_bytes;
    };
    EXPECT_EQ(left(Collective::kAllReduce), 2 * (hosts - 1) * (kBytes / hosts));
    EXPECT_EQ(left(Collective::kReduceScatter), (hosts - 1) * (kBytes / hosts));
    EXPECT_EQ(left(Collective::kAllGather), (hosts - 1) * (kBytes / hosts));
  }
}

TEST(StagedTimesTest, AreThoseOfTheFormula) {
  int compared = 0;
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
    for (const int world : {16, 64, 256}) {
      for (const int64_t bytes : {int64_t{1} << 16, int64_t{1} << 20, int64_t{1} << 24,
                                  int64_t{3} << 23, int64_t{1} << 28}) {
        for (const double bandwidth : {5e9, 20e9, 50e9}) {
          SimulatedCall call = LargeCall(collective, world, bytes);
          call.links.host_bandwidth = bandwidth;
          const std::optional<SimTime> formula = ClosedFormula(call);
          if (!formula.has_value()) continue;
          SCOPED_TRACE(::testing::Message() << NameOf(collective) << " of " << bytes << " on "
                                            << world << " ranks, " << bandwidth);
          ASSERT_OK_AND_ASSIGN(const SimulatedTimes times, SimulateStages(call, {}));
          EXPECT_NEAR(times.time, *formula, 0.05 * static_cast<double>(*formula));
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 40);
}

TEST(StagedTimesTest, StagesWithinHostsTakeWhatTheCostModelSays) {
  const SimulatedCall call = LargeCall(Collective::kBarrier, 16, 0);
  ASSERT_OK_AND_ASSIGN(const SimulatedTimes without, SimulateStages(call, {.local_time = NoTime}));
  ASSERT_OK_AND_ASSIGN(const SimulatedTimes with, SimulateStages(call, {}));
  EXPECT_EQ(DurationOf(with.time - without.time),
            2 * PredictSharedTime(Collective::kBarrier, 8, 0));
}

TEST(StagedTimesTest, CallsThatCannotBeAreRefused) {
  SimulatedCall call = LargeCall(Collective::kAllReduce, 8, 1024);
  EXPECT_THAT(SimulateStages(call, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("all ranks are on one host")));
  call.links.ranks_per_host = 1;
  EXPECT_THAT(SimulateStages(call, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no host has two ranks")));
}

INSTANTIATE_TEST_SUITE_P(All, StagedCallTest, ::testing::ValuesIn(kCollectives),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

}  // namespace
}  // namespace rz
