// Ranks that share memory, one of which dies or stays away at any moment: the others
// end with an error that names it, or with the right result; nobody hangs.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kWorld = 3;
constexpr size_t kSlotBytes = 4096;

class Job {
 public:
  explicit Job(uint64_t seed) : world_(kWorld, {.seed = seed}) {
    CommunicatorOptions options;
    options.clock = world_.clock();
    options.shared_slot_bytes = kSlotBytes;
    for (int r = 0; r < kWorld; ++r) {
      comms_.push_back(*Communicator::Create(world_.transport(Rank(r)), options));
    }
    std::vector<ShareOperation> shares;
    for (auto& comm : comms_) shares.push_back(*comm->StartShareMemory());
    std::vector<std::function<bool()>> polls;
    for (ShareOperation& share : shares) {
      polls.push_back([&share] { return share.Poll(); });
    }
    EXPECT_OK(world_.Run(polls));
    for (ShareOperation& share : shares) EXPECT_TRUE(share.Finish().value());
  }

  SimWorld& world() { return world_; }
  Communicator& comm(int rank) { return *comms_[rank]; }
  void Destroy(int rank) { comms_[rank].reset(); }

 private:
  SimWorld world_;
  std::vector<std::unique_ptr<Communicator>> comms_;
};

// Each rank's values, all_reduced in place; `rank` does `end` at its poll number `at`.
struct Outcome {
  bool struck = false;
  std::vector<absl::Status> results;
};

Outcome RunWith(Job& job, int64_t count, int rank, int at, const std::function<void()>& end) {
  std::vector<std::vector<int32_t>> values(kWorld, std::vector<int32_t>(count, 1));
  std::vector<std::optional<Operation>> operations(kWorld);
  Outcome outcome;
  outcome.results.resize(kWorld);
  std::vector<std::function<bool()>> polls;
  int polled = 0;
  for (int r = 0; r < kWorld; ++r) {
    polls.push_back([&, r] {
      if (r == rank && polled++ == at) {
        outcome.struck = true;
        end();
        if (job.world().IsDead(Rank(r))) return true;
      }
      if (!operations[r].has_value()) {
        auto started = job.comm(r).StartAllReduce(values[r].data(), values[r].data(), count,
                                                  DType::kInt32, ReduceOp::kSum);
        outcome.results[r] = started.status();
        if (!started.ok()) return true;
        operations[r] = *started;
      }
      if (!operations[r]->Poll()) return false;
      outcome.results[r] = operations[r]->status();
      return true;
    });
  }
  EXPECT_OK(job.world().Run(polls));
  for (int r = 0; r < kWorld; ++r) {
    if (job.world().IsDead(Rank(r)) || !outcome.results[r].ok()) continue;
    for (int32_t value : values[r]) {
      EXPECT_EQ(value, kWorld) << "rank " << r;
      if (value != kWorld) break;
    }
  }
  return outcome;
}

// In a line, in one step, in many.
constexpr int64_t kCounts[] = {2, 500, 20'000};

TEST(SharedFaultTest, DeathAtAnyMomentEndsTheOthers) {
  int cut_short = 0;
  for (int64_t count : kCounts) {
    for (int victim = 0; victim < kWorld; ++victim) {
      for (int at = 0;; ++at) {
        SCOPED_TRACE(::testing::Message() << count << " elements, rank " << victim << " at " << at);
        Job job(static_cast<uint64_t>(at) + 1);
        const auto die = [&] { job.world().Kill(Rank(victim), /*silent=*/false); };
        const Outcome outcome = RunWith(job, count, victim, at, die);
        if (HasFailure()) return;
        if (!outcome.struck) break;
        int named = 0;
        int failed = 0;
        for (int r = 0; r < kWorld; ++r) {
          if (r == victim || outcome.results[r].ok()) continue;
          ++failed;
          EXPECT_THAT(outcome.results[r], StatusIs(absl::StatusCode::kUnavailable));
          const std::string dead = absl::StrCat("rank ", victim, " is dead");
          named += std::string(outcome.results[r].message()).find(dead) != std::string::npos;
        }
        if (failed > 0) {
          ++cut_short;
          EXPECT_GE(named, 1);
        }
      }
    }
  }
  EXPECT_GT(cut_short, 20);
}

TEST(SharedFaultTest, ARankThatStaysAwayIsNamedAtTheDeadline) {
  Job job(1);
  std::vector<int32_t> value(1, 1);
  ASSERT_OK_AND_ASSIGN(
      Operation operation,
      job.comm(0).StartAllReduce(value.data(), value.data(), 1, DType::kInt32, ReduceOp::kSum));
  EXPECT_THAT(operation.Wait(absl::Seconds(5)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("operation 3 (all_reduce of 1 int32 sum by shared)"),
                             HasSubstr("waits for rank 1"),
                             HasSubstr("rank 2 has not called operation 3"))));
}

TEST(SharedFaultTest, RanksThatDoNotShareMemoryGoOnWithMessages) {
  SimWorld world(kWorld, {.hosts = {0, 0, 1}});
  std::vector<std::unique_ptr<Communicator>> comms;
  std::vector<ShareOperation> shares;
  for (int r = 0; r < kWorld; ++r) {
    CommunicatorOptions options;
    options.clock = world.clock();
    comms.push_back(*Communicator::Create(world.transport(Rank(r)), options));
    ASSERT_OK_AND_ASSIGN(ShareOperation share, comms.back()->StartShareMemory());
    shares.push_back(std::move(share));
  }
  std::vector<std::function<bool()>> polls;
  for (ShareOperation& share : shares) polls.push_back([&share] { return share.Poll(); });
  ASSERT_OK(world.Run(polls));
  std::vector<Operation> barriers;
  for (int r = 0; r < kWorld; ++r) {
    EXPECT_FALSE(shares[r].Finish().value());
    EXPECT_FALSE(comms[r]->shares_memory());
    ASSERT_OK_AND_ASSIGN(const Operation barrier, comms[r]->StartBarrier());
    barriers.push_back(barrier);
  }
  polls.clear();
  for (Operation& barrier : barriers) polls.push_back([&barrier] { return barrier.Poll(); });
  EXPECT_OK(world.Run(polls));
}

TEST(SharedFaultTest, SharingNeedsAQuietCommunicatorOnce) {
  SimWorld world(2, {});
  CommunicatorOptions options;
  options.clock = world.clock();
  ASSERT_OK_AND_ASSIGN(auto comm, Communicator::Create(world.transport(Rank(0)), options));
  ASSERT_OK(comm->StartBarrier());
  EXPECT_THAT(comm->StartShareMemory(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                 HasSubstr("no operation is under way")));
  Job job(1);
  EXPECT_THAT(job.comm(0).StartShareMemory(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("already")));
}

}  // namespace
}  // namespace rz
