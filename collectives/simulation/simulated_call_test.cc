#include "collectives/simulation/simulated_call.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/communicator.h"
#include "collectives/simulation/shared_schedules.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
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

SharedSchedules SchedulesOf(const SimulatedCall& call) {
  return {call.collective, call.algorithm, call.partials(), call.world};
}

absl::StatusOr<Operation> StartCall(Communicator& comm, const SimulatedCall& call,
                                    std::vector<std::byte>& in, std::vector<std::byte>& out) {
  const int64_t count = call.count;
  const DType dtype = call.dtype;
  switch (call.collective) {
    case Collective::kAllReduce:
      return comm.StartAllReduce(in.data(), out.data(), count, dtype, ReduceOp::kSum);
    case Collective::kReduceScatter:
      return comm.StartReduceScatter(in.data(), out.data(), count, dtype, ReduceOp::kSum);
    case Collective::kAllGather:
      return comm.StartAllGather(in.data(), out.data(), count, dtype);
    case Collective::kBroadcast:
      return comm.StartBroadcast(out.data(), count, dtype, Rank(0));
    case Collective::kReduce:
      return comm.StartReduce(in.data(), out.data(), count, dtype, ReduceOp::kSum, Rank(0));
    case Collective::kAllToAll:
      return comm.StartAllToAll(in.data(), out.data(), count, dtype);
    case Collective::kGather:
      return comm.StartGather(in.data(), out.data(), count, dtype, Rank(0));
    case Collective::kScatter:
      return comm.StartScatter(in.data(), out.data(), count, dtype, Rank(0));
    case Collective::kBarrier:
      return comm.StartBarrier();
  }
  return absl::InternalError("no such collective");
}

// Communicators with executors, over transports, over the same links.
SimulatedTimes RealTimes(const SimulatedCall& call) {
  CommunicatorOptions options;
  options.numeric_mode = call.mode;
  options.algorithms =
      absl::StrCat(std::string(NameOf(call.collective)), ":", std::string(NameOf(call.algorithm)));
  options.slice_bytes = call.slice_bytes;
  options.lanes_in_flight = call.lanes_in_flight;
  options.link = LinkKind::kNetwork;
  options.check_calls = false;
  SimJob job(call.world, {.links = call.links}, options);
  const size_t bytes = static_cast<size_t>(call.count * call.world) * SizeOf(call.dtype);
  std::vector<std::vector<std::byte>> in(call.world, std::vector<std::byte>(bytes));
  std::vector<std::vector<std::byte>> out = in;
  EXPECT_OK(job.Run(1, [&](int r, int) { return StartCall(job.comm(r), call, in[r], out[r]); }));
  for (const absl::Status& result : job.results()) EXPECT_OK(result);
  const SimLinks& links = *job.world().links();
  return {links.now(), links.messages(), links.most_sent_by_rank(), links.most_sent_by_host(),
          links.most_sent_by_rack()};
}

// Nothing that is even or round: what is not the same order of events has other times.
LinkOptions CrowdedLinks() {
  return {.latency = absl::Nanoseconds(1711),
          .rank_bandwidth = 1.9e8,
          .ranks_per_host = 3,
          .hosts_per_rack = 2,
          .local_latency = absl::Nanoseconds(333),
          .local_bandwidth = 7.1e8,
          .host_bandwidth = 3.1e8,
          .rack_bandwidth = 4.3e8};
}

// Every algorithm that has a schedule.
class SimulatedCallTest : public ::testing::TestWithParam<AlgorithmTraits> {
 protected:
  static SimulatedCall Call() {
    SimulatedCall call;
    call.collective = GetParam().collective;
    call.algorithm = GetParam().algorithm;
    call.slice_bytes = 64;
    return call;
  }

  static void Compare(const SimulatedCall& call, const SharedSchedules& schedules) {
    SCOPED_TRACE(::testing::Message()
                 << call.world << " ranks, count " << call.count << ", " << call.lanes_in_flight
                 << " lanes, latency " << call.links.latency);
    const absl::StatusOr<SimulatedTimes> simulated = Simulate(call, schedules);
    if (absl::IsInvalidArgument(simulated.status())) {
      EXPECT_THAT(simulated.status().message(), HasSubstr("it needs blocks of one length"));
      return;
    }
    ASSERT_OK(simulated.status());
    ASSERT_EQ(*simulated, RealTimes(call));
  }
};

TEST_P(SimulatedCallTest, MessagesAndTimesAreThoseOfExecutors) {
  SimulatedCall call = Call();
  LinkOptions flat;
  flat.rank_bandwidth = 1e9;
  LinkOptions at_once;  // neither latency nor limits: everything at one moment
  at_once.latency = absl::ZeroDuration();
  at_once.rank_bandwidth = 0;
  for (const LinkOptions& links : {flat, CrowdedLinks(), at_once}) {
    call.links = links;
    for (const int world : {1, 2, 3, 8, 13}) {
      call.world = world;
      const SharedSchedules schedules = SchedulesOf(call);
      for (const int64_t count :
           {int64_t{0}, int64_t{1}, int64_t{world} * 16, int64_t{world} * 131 + 5}) {
        call.count = count;
        for (const int lanes : {1, 4}) {
          call.lanes_in_flight = lanes;
          ASSERT_NO_FATAL_FAILURE(Compare(call, schedules));
        }
      }
    }
  }
}

// Few of the ranks move at one moment.
TEST_P(SimulatedCallTest, LikewiseWhereRanksAreOutOfStep) {
  SimulatedCall call = Call();
  call.world = 50;
  call.count = int64_t{call.world} * 40 + 7;
  call.links = CrowdedLinks();
  Compare(call, SchedulesOf(call));
}

INSTANTIATE_TEST_SUITE_P(All, SimulatedCallTest, ::testing::ValuesIn(AllAlgorithms()),
                         [](const auto& info) {
                           return absl::StrCat(std::string(NameOf(info.param.collective)), "_",
                                               std::string(NameOf(info.param.algorithm)));
                         });

TEST(SharedSchedulesTest, RingOfManyRanksIsOneSchedule) {
  constexpr int kWorld = 100;
  const SharedSchedules ring(Collective::kAllReduce, Algorithm::kRing, Format::kWire, kWorld);
  EXPECT_EQ(ring.size(), 1u);
  EXPECT_EQ(ring.MessagesOfLane(), 2 * kWorld * (kWorld - 1));
  const SharedSchedules tree(Collective::kBroadcast, Algorithm::kBinomial, Format::kWire, kWorld);
  EXPECT_GT(tree.size(), 1u);
  EXPECT_EQ(tree.MessagesOfLane(), kWorld - 1);
}

TEST(SimulatedTimesTest, SameInputGivesTheSame) {
  SimulatedCall call;
  call.world = 24;
  call.count = 10'007;
  call.algorithm = Algorithm::kPairwise;
  call.links = CrowdedLinks();
  const SharedSchedules schedules = SchedulesOf(call);
  ASSERT_OK_AND_ASSIGN(const SimulatedTimes first, Simulate(call, schedules));
  ASSERT_OK_AND_ASSIGN(const SimulatedTimes second, Simulate(call, schedules));
  EXPECT_EQ(first, second);
}

// One message at a time and one addition behind each: every term of the formula shows alone.
TEST(SimulatedTimesTest, AdditionsDelayWhatComesAfterThem) {
  SimulatedCall call;
  call.world = 5;
  call.count = 5 * 1000;  // 4,000 bytes a block
  call.links.latency = absl::Microseconds(3);
  call.links.rank_bandwidth = 1e9;
  const SharedSchedules schedules = SchedulesOf(call);
  ASSERT_OK_AND_ASSIGN(const SimulatedTimes without, Simulate(call, schedules));
  EXPECT_EQ(DurationOf(without.time), 4 * (absl::Microseconds(3) + absl::Microseconds(4)));
  call.reduce_bandwidth = 2e9;
  ASSERT_OK_AND_ASSIGN(const SimulatedTimes with, Simulate(call, schedules));
  EXPECT_EQ(DurationOf(with.time - without.time), 4 * absl::Microseconds(2));
}

TEST(SimulatedTimesTest, RanksAddOnOneCore) {
  // Eight lanes are there together; their additions are not.
  SimulatedCall call;
  call.world = 2;
  call.slice_bytes = 64;
  call.count = int64_t{2} * 16 * 8;
  call.lanes_in_flight = 8;
  call.links.latency = absl::Microseconds(1);
  call.links.rank_bandwidth = 0;
  call.reduce_bandwidth = 1e9;  // 64 ns a lane
  ASSERT_OK_AND_ASSIGN(const SimulatedTimes times, Simulate(call, SchedulesOf(call)));
  EXPECT_EQ(DurationOf(times.time), absl::Nanoseconds(1000 + 8 * 64));
}

TEST(SimulatedTimesTest, CallsThatCannotBeAreRefused) {
  SimulatedCall call;
  call.world = 64;
  call.collective = Collective::kAllReduce;
  call.algorithm = Algorithm::kHalving;
  call.count = int64_t{1} << 28;
  const SharedSchedules schedules = SchedulesOf(call);
  EXPECT_THAT(Simulate(call, schedules).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot be cut into slices")));
  call.mode = NumericMode::kDeterministic;
  EXPECT_THAT(Simulate(call, schedules).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("deterministic")));
  call.links.ranks_per_host = 0;
  EXPECT_THAT(Simulate(call, schedules).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ranks of a host")));
}

TEST(SimulatedTimesTest, SchedulesOfAnotherWorldAreRefused) {
  SimulatedCall call;
  call.world = 4;
  const SharedSchedules schedules = SchedulesOf(call);
  call.world = 5;
  EXPECT_THAT(Simulate(call, schedules).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("schedules of 4 ranks")));
}

}  // namespace
}  // namespace rz
