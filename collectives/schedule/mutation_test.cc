// The verifier has teeth: any algorithm with any one step wrong is refused. Every damage below is
// done to steps drawn by seed from the schedules of every algorithm.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "collectives/schedule/testing_algorithms.h"
#include "collectives/schedule/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;

constexpr int kTries = 12;
constexpr int32_t kWorlds[] = {4, 5, 7};

bool IsData(const Transfer& transfer) {
  return transfer.kind == TransferKind::kSend || transfer.kind == TransferKind::kRecv;
}

bool Reduces(const LocalStep& step) {
  return step.kind == LocalKind::kReduce || step.kind == LocalKind::kReduceFinish;
}

// One damage to a transfer or a local step; `false` where it does not apply to this one. Those
// after which the schedules would still be right do not apply.
struct Damage {
  const char* name;
  std::function<bool(Schedule&, Transfer&)> to_transfer;
  std::function<bool(Schedule&, LocalStep&)> to_step;
};

// In an all_to_all all slots have one length, and the number of a block says nothing else.
bool BlockMatters(const Schedule& schedule, BlockRef ref) {
  return !schedule.equal_blocks || ref.place != Place::kScratch;
}

const Damage kDamages[] = {
    {"another block",
     [](Schedule& schedule, Transfer& transfer) {
       ++transfer.block;
       return IsData(transfer) && BlockMatters(schedule, transfer.ref) && !schedule.one_block;
     },
     nullptr},
    {"another peer",
     [](Schedule&, Transfer& transfer) {
       ++transfer.peer;
       return true;
     },
     nullptr},
    {"another piece of memory",
     [](Schedule&, Transfer& transfer) {
       ++transfer.ref.index;
       return IsData(transfer);
     },
     nullptr},
    {"a longer run",
     [](Schedule&, Transfer& transfer) {
       ++transfer.blocks;
       return IsData(transfer);
     },
     nullptr},
    {"a shorter run",
     [](Schedule&, Transfer& transfer) {
       --transfer.blocks;
       return IsData(transfer);
     },
     nullptr},
    {"another direction",
     [](Schedule&, Transfer& transfer) {
       transfer.kind = transfer.kind == TransferKind::kSend     ? TransferKind::kRecv
                       : transfer.kind == TransferKind::kRecv   ? TransferKind::kSend
                       : transfer.kind == TransferKind::kSignal ? TransferKind::kAwait
                                                                : TransferKind::kSignal;
       return true;
     },
     nullptr},
    {"another destination", nullptr,
     [](Schedule&, LocalStep& step) {
       ++step.dst.index;
       return true;
     }},
    {"another operand", nullptr,
     [](Schedule&, LocalStep& step) {
       ++step.a.index;
       return true;
     }},
    {"an input multiplied never or a sum twice", nullptr,
     [](Schedule&, LocalStep& step) {
       step.a_is_input = !step.a_is_input;
       return Reduces(step);
     }},
    {"an own input that is none", nullptr,
     [](Schedule&, LocalStep& step) {
       step.b_is_input = !step.b_is_input;
       return Reduces(step);
     }},
    {"a sum finished too early or never", nullptr,
     [](Schedule&, LocalStep& step) {
       step.kind = step.kind == LocalKind::kReduce ? LocalKind::kReduceFinish : LocalKind::kReduce;
       return Reduces(step);
     }},
    {"a sum that is no sum", nullptr,
     [](Schedule&, LocalStep& step) {
       const bool reduces = Reduces(step);
       step.kind = LocalKind::kCopy;
       return reduces;
     }},
};

class MutationTest : public ::testing::TestWithParam<TestedAlgorithm> {
 protected:
  // Draws a step of a random rank, damages it and asks the verifier.
  void Try(const Damage& damage, int32_t world, std::mt19937& random) {
    const int32_t root = GetParam().has_root ? static_cast<int32_t>(random() % world) : 0;
    std::vector<Schedule> schedules = SchedulesOf(GetParam(), world, root);
    Schedule& schedule = schedules[random() % world];
    if (schedule.rounds.empty()) return;
    Round& round = schedule.rounds[random() % schedule.rounds.size()];
    std::string before;
    if (damage.to_transfer != nullptr) {
      if (round.transfers.empty()) return;
      Transfer& transfer = round.transfers[random() % round.transfers.size()];
      before = ToString(transfer);
      if (!damage.to_transfer(schedule, transfer)) return;
    } else {
      if (round.local.empty()) return;
      LocalStep& step = round.local[random() % round.local.size()];
      before = ToString(step);
      if (!damage.to_step(schedule, step)) return;
    }
    EXPECT_THAT(VerifySchedules(schedules, ClaimOf(GetParam(), world, root)),
                StatusIs(absl::StatusCode::kFailedPrecondition))
        << damage.name << " in \"" << before << "\", world " << world << ", root " << root;
  }
};

TEST_P(MutationTest, AnyOneWrongStepIsRefused) {
  std::mt19937 random(31337);
  for (int32_t world : kWorlds) {
    for (const Damage& damage : kDamages) {
      for (int i = 0; i < kTries; ++i) Try(damage, world, random);
    }
  }
}

TEST_P(MutationTest, AnyMissingStepIsRefused) {
  for (int32_t world : kWorlds) {
    const int32_t root = GetParam().has_root ? world / 2 : 0;
    const std::vector<Schedule> right = SchedulesOf(GetParam(), world, root);
    const Claim claim = ClaimOf(GetParam(), world, root);
    ASSERT_THAT(VerifySchedules(right, claim), IsOk());
    for (int32_t rank = 0; rank < world; ++rank) {
      for (size_t r = 0; r < right[rank].rounds.size(); ++r) {
        const Round& round = right[rank].rounds[r];
        for (size_t i = 0; i < round.transfers.size() + round.local.size(); ++i) {
          std::vector<Schedule> schedules = right;
          Round& damaged = schedules[rank].rounds[r];
          const bool local = i >= round.transfers.size();
          if (local) {
            const size_t step = i - round.transfers.size();
            // A broadcast is in place at its root, so there is nothing to copy.
            if (claim.goal == Goal::kBroadcast && rank == root) continue;
            damaged.local.erase(damaged.local.begin() + step);
          } else {
            damaged.transfers.erase(damaged.transfers.begin() + i);
          }
          ASSERT_THAT(VerifySchedules(schedules, claim),
                      StatusIs(absl::StatusCode::kFailedPrecondition))
              << "rank " << rank << ", round " << r << ", step " << i << " left out";
        }
      }
    }
  }
}

TEST_P(MutationTest, AnotherRootThanClaimedIsRefused) {
  if (!GetParam().has_root) GTEST_SKIP() << "has no root";
  EXPECT_THAT(VerifySchedules(SchedulesOf(GetParam(), 5, 2), ClaimOf(GetParam(), 5, 3)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_P(MutationTest, OneRankWithAnotherRootIsRefused) {
  if (!GetParam().has_root) GTEST_SKIP() << "has no root";
  for (int32_t rank = 0; rank < 5; ++rank) {
    std::vector<Schedule> schedules = SchedulesOf(GetParam(), 5, 2);
    Schedule other = GetParam().build(rank, 5, 3);
    if (other == schedules[rank]) continue;  // in the middle of a chain
    schedules[rank] = std::move(other);
    EXPECT_THAT(VerifySchedules(schedules, ClaimOf(GetParam(), 5, 2)),
                StatusIs(absl::StatusCode::kFailedPrecondition))
        << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(All, MutationTest, ::testing::ValuesIn(TestedAlgorithms()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rz
