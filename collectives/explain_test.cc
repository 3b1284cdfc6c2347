// What a communicator says about its choices.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/call.h"
#include "collectives/communicator.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/cores.h"
#include "runtime/base/one_core.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::OnOneCore;
using ::rz::testing::SimJob;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kWorld = 4;

Call WithCounts(Collective collective, const std::vector<int64_t>& counts) {
  Call call;
  call.collective = collective;
  call.has_counts = true;
  call.counts = counts;
  call.recv_counts = counts;
  return call;
}

TEST(ExplainTest, VariantsAreExplainedByTheirLargestCount) {
  SimJob job(kWorld, {}, {});
  const Communicator& comm = job.comm(1);
  const std::vector<int64_t> even(kWorld, 1 << 20);
  const std::vector<int64_t> half = {int64_t{6} << 18, int64_t{6} << 18, int64_t{12} << 18, 0};
  for (Collective collective : {Collective::kReduceScatter, Collective::kAllGather}) {
    ASSERT_OK_AND_ASSIGN(const Explanation plain,
                         comm.Explain(collective, DType::kFloat32, ReduceOp::kSum, 4 << 20));
    ASSERT_OK_AND_ASSIGN(const Explanation equal, comm.Explain(WithCounts(collective, even)));
    EXPECT_EQ(equal.algorithm(), plain.algorithm());
    EXPECT_EQ(equal.candidates.front().predicted, plain.candidates.front().predicted);
    EXPECT_THAT(equal.text, HasSubstr(absl::StrCat(std::string(NameOf(collective)),
                                                   "_v of 4194304 float32, at most 1048576 of one "
                                                   "rank on 4 ranks")));
    ASSERT_OK_AND_ASSIGN(const Explanation uneven, comm.Explain(WithCounts(collective, half)));
    EXPECT_GT(uneven.candidates.front().predicted, equal.candidates.front().predicted);
  }
  ASSERT_OK_AND_ASSIGN(const Explanation exchange,
                       comm.Explain(WithCounts(Collective::kAllToAll, half)));
  EXPECT_THAT(exchange.text, AllOf(HasSubstr("all_to_all_v of counts of each rank's own"),
                                   HasSubstr("bruck: "), HasSubstr("a v variant has any")));
}

TEST(ExplainTest, CountsThatCannotBeAreRefused) {
  SimJob job(kWorld, {}, {});
  const std::vector<int64_t> few = {1, 2, 3};
  const std::vector<int64_t> negative = {1, -2, 3, 4};
  EXPECT_THAT(job.comm(0).Explain(WithCounts(Collective::kAllGather, few)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there are 3")));
  EXPECT_THAT(job.comm(0).Explain(WithCounts(Collective::kAllGather, negative)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("below 0")));
}

std::string ReasonFor(const Communicator& comm) {
  const absl::StatusOr<Explanation> explained =
      comm.Explain(Collective::kAllReduce, DType::kFloat32, ReduceOp::kSum, 1000);
  return explained.ok() ? explained->reason : explained.status().ToString();
}

// The caller has said nothing of the network; the ranks find out.
TEST(ExplainTest, RanksOfSeveralHostsTakeTheNetworksConstants) {
  SimJob job(kWorld, {.hosts = {0, 0, 1, 1}}, {});
  for (int r = 0; r < kWorld; ++r) {
    EXPECT_EQ(ReasonFor(job.comm(r)), "least predicted time over shared memory");
  }
  ASSERT_OK_AND_ASSIGN(const bool shared, job.ShareMemory());
  EXPECT_FALSE(shared);
  for (int r = 0; r < kWorld; ++r) {
    EXPECT_EQ(ReasonFor(job.comm(r)), OwnCores().count >= 2
                                          ? "least predicted time over network"
                                          : "least predicted time over network, ranks share cores");
  }
}

// Three ranks of one host have one core; the other host's only rank knows.
TEST(ExplainTest, RanksOfSeveralHostsAgreeThatCoresAreShared) {
  OnOneCore([] {
    SimJob job(kWorld, {.hosts = {0, 0, 0, 1}}, {});
    ASSERT_OK(job.ShareMemory().status());
    for (int r = 0; r < kWorld; ++r) {
      EXPECT_EQ(ReasonFor(job.comm(r)), "least predicted time over network, ranks share cores");
    }
  });
}

TEST(ExplainTest, RanksThatShareMemorySaySo) {
  SimJob job(kWorld, {}, {});
  ASSERT_OK_AND_ASSIGN(const bool shared, job.ShareMemory());
  EXPECT_TRUE(shared);
  EXPECT_EQ(ReasonFor(job.comm(3)), "the ranks share memory");
}

}  // namespace
}  // namespace rz
