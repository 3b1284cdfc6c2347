#include "collectives/shared/shared_link.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/call_descriptor.h"
#include "collectives/shared/memory_only_transport.h"
#include "collectives/shared/shared_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::MemoryOnly;
using ::rz::testing::Regions;
using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int kWorld = 2;
constexpr int64_t kCount = 200'000;
constexpr int64_t kNoProcess = 999'999'999;

struct Ranks {
  explicit Ranks(bool cores_are_few = false) {
    std::vector<std::unique_ptr<SharedArea>> areas;
    std::vector<std::string> keys;
    for (int r = 0; r < kWorld; ++r) {
      transports.push_back(std::make_unique<MemoryOnly>(&regions, r, kWorld));
      areas.push_back(*SharedArea::Allocate(transports[r].get(), Group(*transports[r]), 4096));
      keys.push_back(areas[r]->key());
    }
    for (int r = 0; r < kWorld; ++r) {
      EXPECT_OK(areas[r]->Map(keys));
      EXPECT_TRUE(areas[r]->CanFetch());
      areas[r]->set_fetches(true);
    }
    // Rank 1 is gone by the time it is read.
    areas[1]->header().process.value = kNoProcess;
    for (int r = 0; r < kWorld; ++r) {
      links.push_back(std::make_unique<SharedLink>(
          transports[r].get(), Group(*transports[r]), 0, std::move(areas[r]), 0, Clock::Steady(),
          [](int64_t, const absl::Status&) {}, cores_are_few));
    }
  }

  void StartAllGather(int rank, const int32_t* in, int32_t* out) {
    Plan plan;
    plan.collective = Collective::kAllGather;
    plan.algorithm = Algorithm::kShared;
    plan.count = kCount;
    plan.arithmetic.dtype = DType::kInt32;
    plan.lanes = LaneLayout(ChunkLayout(kCount, kWorld, 0), 1000);
    CallDescriptor call;
    call.number = 1;
    call.kind = static_cast<uint8_t>(Collective::kAllGather);
    call.count = kCount;
    links[rank]->exchange().BeginCall(call, 1);
    links[rank]->engine().Start(1, plan, in, out);
    links[rank]->exchange().EndCall();
  }

  // What is carried by messages: shared memory only compares it.
  void CallOverMessages(int rank, int64_t number) {
    CallDescriptor call;
    call.number = number;
    links[rank]->exchange().BeginCall(call, static_cast<uint64_t>(number));
    links[rank]->exchange().EndCall();
  }

  // Waits of rank 0, with nothing to come, until it sleeps.
  int WaitsBeforeSleep(bool patient = false) {
    int waits = 0;
    for (; transports[0]->waited == 0; ++waits) {
      links[0]->Wait(Deadline::InfiniteFuture(), patient);
    }
    return waits - 1;
  }

  Regions regions;
  std::vector<std::unique_ptr<MemoryOnly>> transports;
  std::vector<std::unique_ptr<SharedLink>> links;
};

// The wire of this transport says from the start that everybody is gone, which matters to nobody
// who waits for none; a memory that cannot be read does.
TEST(SharedLinkTest, MemoryThatCannotBeReadIsTroubleAndItsRankIsNamed) {
  Ranks ranks;
  const std::vector<int32_t> in(kCount);
  std::vector<std::vector<int32_t>> out(kWorld, std::vector<int32_t>(kCount));
  for (int r = 0; r < kWorld; ++r) ranks.StartAllGather(r, in.data(), out[r].data());
  for (int i = 0; i < 1000; ++i) ranks.links[0]->Poll();
  EXPECT_THAT(ranks.links[0]->trouble(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("the memory of rank 1 cannot be reached any more")));
}

// The last to call finds all others' lines at once, and nothing moves for it any more; the others
// need its leave all the same before they write over what it has read.
TEST(SharedLinkTest, ARankThatIsAlwaysTheLastToCallReleasesLines) {
  Ranks ranks;
  for (int64_t number = 1; number <= 3 * kSharedLines; ++number) {
    for (int r : {1, 0}) ranks.CallOverMessages(r, number);
    for (int r : {0, 1, 0}) ranks.links[r]->Poll();
    for (int r : {0, 1}) ASSERT_EQ(ranks.links[r]->exchange().agreed(), number) << "rank " << r;
  }
}

TEST(SharedLinkTest, IsSettledOnceOthersKnowWhichLinesTheyMayUseAgain) {
  Ranks ranks;
  for (int64_t number = 1; number <= kSharedLines / 2; ++number) {
    for (int r : {1, 0}) ranks.CallOverMessages(r, number);
  }
  EXPECT_EQ(ranks.links[0]->exchange().agreed(), kSharedLines / 2);
  for (const auto& link : ranks.links) {
    EXPECT_FALSE(link->exchange().settled());
    link->Poll();
    EXPECT_TRUE(link->exchange().settled());
  }
}

TEST(SharedLinkTest, SpinsWhereAllRanksOfTheHostHaveACore) {
  Ranks ranks;
  EXPECT_EQ(ranks.WaitsBeforeSleep(), kSpins + kYields);
  EXPECT_EQ(ranks.links[0]->brief_polls(), kBriefPolls);
}

TEST(SharedLinkTest, WaitsBrieflyWhereRanksOfTheHostOutnumberCores) {
  Ranks ranks(/*cores_are_few=*/true);
  EXPECT_EQ(ranks.WaitsBeforeSleep(), kSpinsWhereCoresAreFew + kYields);
  EXPECT_EQ(ranks.links[0]->brief_polls(), kBriefPollsWhereCoresAreFew);
}

// A sleeper is woken by a message, which costs more than all the yields.
TEST(SharedLinkTest, GivesTheCoreAwayBeforeItSleepsWhereOtherHostsAreWaitedFor) {
  Ranks ranks;
  EXPECT_EQ(ranks.WaitsBeforeSleep(/*patient=*/true), kSpinsWhereCoresAreFew + kYields);
}

}  // namespace
}  // namespace rz
