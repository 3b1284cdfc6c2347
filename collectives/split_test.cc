// Communicators split from others over the same transport.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/shared/shared_limits.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/base/cores.h"
#include "runtime/base/one_core.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::OnOneCore;
using ::rz::testing::SimJob;
using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

struct Place {
  int64_t colour;
  int64_t key;
};

// Splits parents[r] on every rank; null where the rank is no member.
std::vector<std::unique_ptr<Communicator>> SplitAll(SimWorld& world,
                                                    const std::vector<Communicator*>& parents,
                                                    const std::function<Place(int)>& place_of) {
  std::vector<std::optional<SplitOperation>> splits(parents.size());
  std::vector<std::function<bool()>> ranks;
  for (size_t r = 0; r < parents.size(); ++r) {
    ranks.push_back([&, r] {
      if (parents[r] == nullptr) return true;
      if (!splits[r].has_value()) {
        const Place place = place_of(static_cast<int>(r));
        absl::StatusOr<SplitOperation> split = parents[r]->StartSplit(place.colour, place.key);
        EXPECT_OK(split.status());
        splits[r].emplace(*std::move(split));
        return false;
      }
      return splits[r]->Poll();
    });
  }
  EXPECT_OK(world.Run(ranks));
  std::vector<std::unique_ptr<Communicator>> result;
  for (auto& split : splits) {
    result.emplace_back();
    if (!split.has_value()) continue;
    absl::StatusOr<std::unique_ptr<Communicator>> finished = split->Finish();
    EXPECT_OK(finished.status());
    result.back() = *std::move(finished);
  }
  return result;
}

std::vector<Communicator*> Pointers(const std::vector<std::unique_ptr<Communicator>>& comms) {
  std::vector<Communicator*> pointers;
  for (const auto& comm : comms) pointers.push_back(comm.get());
  return pointers;
}

std::vector<Communicator*> Parents(SimJob& job) {
  std::vector<Communicator*> parents;
  for (int r = 0; r < job.size(); ++r) parents.push_back(&job.comm(r));
  return parents;
}

// The job's ranks in each communicator, by its rank: found by gathering.
void ExpectMembers(SimWorld& world, const std::vector<Communicator*>& comms,
                   const std::function<std::vector<int32_t>(int)>& expected) {
  std::vector<std::vector<int32_t>> members(comms.size());
  std::vector<int32_t> self(comms.size());
  std::vector<std::optional<Operation>> operations(comms.size());
  std::vector<std::function<bool()>> ranks;
  for (size_t r = 0; r < comms.size(); ++r) {
    self[r] = static_cast<int32_t>(r);
    ranks.push_back([&, r] {
      if (comms[r] == nullptr) return true;
      if (!operations[r].has_value()) {
        members[r].resize(comms[r]->world_size());
        absl::StatusOr<Operation> operation = comms[r]->StartAllGather(
            &self[r], members[r].data(), comms[r]->world_size(), DType::kInt32);
        EXPECT_OK(operation.status());
        operations[r] = *operation;
        return false;
      }
      return operations[r]->Poll();
    });
  }
  ASSERT_OK(world.Run(ranks));
  for (size_t r = 0; r < comms.size(); ++r) {
    if (comms[r] == nullptr) continue;
    ASSERT_OK(operations[r]->status());
    EXPECT_EQ(members[r], expected(static_cast<int>(r))) << "rank " << r;
    EXPECT_EQ(members[r][comms[r]->rank().value()], static_cast<int32_t>(r));
  }
}

TEST(SplitTest, ColoursAreCommunicatorsInTheOrderOfKeys) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimJob job(7, {.seed = seed}, {});
    const auto halves = SplitAll(job.world(), Parents(job), [](int r) {
      return Place{r % 2, r < 4 ? 1 : 0};
    });
    ExpectMembers(job.world(), Pointers(halves), [](int r) {
      return r % 2 == 0 ? std::vector<int32_t>{4, 6, 0, 2} : std::vector<int32_t>{5, 1, 3};
    });
    // Once more, of what was split, with the parents still in use.
    const auto quarters = SplitAll(job.world(), Pointers(halves), [](int r) {
      return Place{r < 3 ? 7 : 8, -r};
    });
    ExpectMembers(job.world(), Pointers(quarters), [](int r) {
      if (r < 3) return r % 2 == 0 ? std::vector<int32_t>{2, 0} : std::vector<int32_t>{1};
      return r % 2 == 0 ? std::vector<int32_t>{6, 4} : std::vector<int32_t>{5, 3};
    });
    ExpectMembers(job.world(), Pointers(halves), [](int r) {
      return r % 2 == 0 ? std::vector<int32_t>{4, 6, 0, 2} : std::vector<int32_t>{5, 1, 3};
    });
    ExpectMembers(job.world(), Parents(job),
                  [](int) { return std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6}; });
  }
}

TEST(SplitTest, NegativeColourIsNoMember) {
  SimJob job(3, {}, {});
  const auto comms = SplitAll(job.world(), Parents(job), [](int r) {
    return Place{r == 1 ? -1 : 0, 0};
  });
  EXPECT_EQ(comms[1], nullptr);
  ExpectMembers(job.world(), Pointers(comms), [](int) { return std::vector<int32_t>{0, 2}; });
}

TEST(SplitTest, ErrorsNameBothRanks) {
  SimJob job(3, {}, {});
  const auto comms = SplitAll(job.world(), Parents(job), [](int r) {
    return Place{r == 0 ? -1 : 0, 0};
  });
  std::vector<float> data(4);
  EXPECT_THAT(
      comms[2]->Broadcast(data.data(), 4, DType::kFloat32, Rank(0)),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1 (rank 2 of the job)")));
}

TEST(SplitTest, OneFailureEndsAllCommunicatorsOfTheTransport) {
  SimJob job(2, {}, {});
  const auto comms = SplitAll(job.world(), Parents(job), [](int) { return Place{0, 0}; });
  ASSERT_OK_AND_ASSIGN(Operation operation, job.comm(0).StartBarrier());
  comms[0]->Abort(absl::AbortedError("enough"));
  EXPECT_THAT(operation.Wait(), StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
  EXPECT_THAT(comms[0]->Barrier(), StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
}

TEST(SplitTest, IdsComeBackAndRunOutWithAnError) {
  SimJob job(1, {}, {});
  for (int i = 0; i < 600; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto comm, job.comm(0).Split(0, 0));
    ASSERT_OK(comm->Barrier());
  }
  std::vector<std::unique_ptr<Communicator>> kept;
  for (int i = 0; i < 255; ++i) {
    ASSERT_OK_AND_ASSIGN(auto comm, job.comm(0).Split(0, 0));
    kept.push_back(std::move(comm));
  }
  EXPECT_THAT(job.comm(0).Split(0, 0), StatusIs(absl::StatusCode::kResourceExhausted,
                                                HasSubstr("all 256 communicator ids are taken")));
  kept.pop_back();
  EXPECT_OK(job.comm(0).Split(0, 0));
  EXPECT_OK(job.comm(0).Barrier());
}

// What is taken on any member's transport is taken for all.
TEST(SplitTest, IdsMustBeFreeOnAllMembers) {
  SimJob job(3, {}, {});
  const auto parts = SplitAll(job.world(), Parents(job), [](int r) {
    return Place{r == 2 ? 1 : 0, 0};
  });
  std::vector<Communicator*> pair = Pointers(parts);
  pair[2] = nullptr;
  std::vector<std::unique_ptr<Communicator>> kept;
  for (int i = 0; i < 200; ++i) {  // ids 2 .. 201 on ranks 0 and 1
    for (auto& comm : SplitAll(job.world(), pair, [](int) { return Place{0, 0}; })) {
      kept.push_back(std::move(comm));
    }
  }
  for (int i = 2; i < 202; ++i) ASSERT_OK(parts[2]->Split(0, 0));
  for (int i = 202; i < 256; ++i) {  // the others on rank 2
    ASSERT_OK_AND_ASSIGN(auto comm, parts[2]->Split(0, 0));
    kept.push_back(std::move(comm));
  }
  std::vector<SplitOperation> splits;
  for (Communicator* parent : Parents(job)) {
    ASSERT_OK_AND_ASSIGN(SplitOperation split, parent->StartSplit(0, 0));
    splits.push_back(std::move(split));
  }
  std::vector<std::function<bool()>> ranks;
  for (SplitOperation& split : splits) ranks.push_back([&split] { return split.Poll(); });
  ASSERT_OK(job.world().Run(ranks));
  for (SplitOperation& split : splits) {
    EXPECT_THAT(split.Finish(), StatusIs(absl::StatusCode::kResourceExhausted));
  }
}

TEST(SplitTest, OneSplitATransportAtATime) {
  SimJob job(2, {}, {});
  ASSERT_OK_AND_ASSIGN(SplitOperation split, job.comm(0).StartSplit(0, 0));
  EXPECT_THAT(job.comm(0).StartSplit(0, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another split")));
  job.comm(0).Abort(absl::AbortedError("over"));
  EXPECT_FALSE(split.Wait().ok());
}

// Each look at the time is one turn of a wait.
class CountingClock final : public Clock {
 public:
  explicit CountingClock(const Clock* clock) : clock_(clock) {}
  absl::Duration Now() const override {
    ++looks;
    return clock_->Now();
  }

  mutable int looks = 0;

 private:
  const Clock* const clock_;
};

// Ranks over a SimWorld with a clock of their own, which have shared what memory they can.
struct SharingJob {
  explicit SharingJob(const std::vector<int>& hosts)
      : world(static_cast<int>(hosts.size()), {.hosts = hosts}), clock(world.clock()) {
    CommunicatorOptions options;
    options.clock = &clock;
    options.shared_slot_bytes = std::max<size_t>(4096, 64 * hosts.size());
    for (int r = 0; r < world.world_size(); ++r) {
      comms.push_back(*Communicator::Create(world.transport(Rank(r)), options));
    }
    ShareMemory(Pointers(comms));
  }

  // Null ones look on.
  void ShareMemory(const std::vector<Communicator*>& of) {
    std::vector<ShareOperation> shares;
    for (Communicator* comm : of) {
      if (comm != nullptr) shares.push_back(*comm->StartShareMemory());
    }
    std::vector<std::function<bool()>> ranks(of.size(), [] { return true; });
    for (size_t r = 0, next = 0; r < of.size(); ++r) {
      if (of[r] == nullptr) continue;
      ranks[r] = [&share = shares[next++]] { return share.Poll(); };
    }
    EXPECT_OK(world.Run(ranks));
    for (ShareOperation& share : shares) EXPECT_OK(share.Finish().status());
  }

  SimWorld world;
  CountingClock clock;
  std::vector<std::unique_ptr<Communicator>> comms;
};

// Turns of rank 0 of a pair on host 0, split off the others in two steps, in a wait for rank 1,
// which does not come.
int TurnsOfAPair(const std::vector<int>& hosts) {
  SharingJob job(hosts);
  const auto without_last = SplitAll(job.world, Pointers(job.comms), [&](int r) {
    return Place{r + 1 < static_cast<int>(hosts.size()) ? 0 : -1, 0};
  });
  const auto pairs = SplitAll(job.world, Pointers(without_last), [](int r) {
    return Place{r < 2 ? 0 : -1, 0};
  });
  job.ShareMemory(Pointers(pairs));
  EXPECT_TRUE(pairs[0]->shares_memory());
  absl::StatusOr<Operation> barrier = pairs[0]->StartBarrier();
  EXPECT_OK(barrier.status());
  job.clock.looks = 0;
  EXPECT_THAT(barrier->Wait(absl::Milliseconds(1)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  return job.clock.looks;
}

TEST(SplitTest, APartWaitsBrieflyWhereTheJobsRanksOfItsHostOutnumberCores) {
  const int cores = static_cast<int>(OwnCores().count);
  std::vector<int> hosts(std::max(cores + 1, 3), 0);
  EXPECT_LT(TurnsOfAPair(hosts), kSpins);
  // The ranks of other hosts have cores of their own.
  hosts.push_back(1);
  EXPECT_LT(TurnsOfAPair(hosts), kSpins);
  if (cores >= 2) {
    EXPECT_GE(TurnsOfAPair({0, 0, 1, 1, 1, 1}), kSpins);
  }
}

TEST(SplitTest, RanksWaitBrieflyWhereTheyOutnumberTheCoresThatTheyAreBoundTo) {
  OnOneCore([] { EXPECT_LT(TurnsOfAPair({0, 0, 1, 1, 1, 1}), kSpins); });
}

TEST(SplitTest, IdsOfCreateAreDistinct) {
  SimJob job(1, {}, {});
  EXPECT_THAT(Communicator::Create(job.world().transport(Rank(0)), {}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("id 0")));
}

}  // namespace
}  // namespace rz
