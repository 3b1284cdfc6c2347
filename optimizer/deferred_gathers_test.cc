// Steps that end while new parameters are on their way. That no bit and no byte of a step changes
// by it, stage_equality_test.cc shows; that all goes on after an end amid them,
// tests/integration/zero_process_test.cc.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::SimRanks;
using ::rz::testing::StatusIs;
using ::testing::Contains;
using ::testing::Each;

constexpr int kWorld = 3;
constexpr size_t kUnits = 3;

std::unique_ptr<SimRanks> MakeRanks(ZeroStage stage, bool behind_forward) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = DType::kFloat32;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 1;
  config.overlap_communication = true;
  config.announce_gradients = true;
  config.gather_behind_forward = behind_forward;
  auto ranks = SimRanks::Create(
      kWorld, "", {{"first", {500}, 0}, {"middle", {500}, 1}, {"last", {500}, 2}}, config);
  EXPECT_OK(ranks.status());
  const auto initializer = [](size_t index, absl::Span<float> values) {
    for (float& value : values) value = static_cast<float>(index + 1);
  };
  EXPECT_THAT((*ranks)->Initialize(initializer), Each(IsOk()));
  return *std::move(ranks);
}

void StepAll(SimRanks& ranks) {
  for (int rank = 0; rank < kWorld; ++rank) {
    for (size_t p = 0; p < kUnits; ++p) ranks.SetGradient(rank, p, 0, 1);
  }
  for (const auto& report : ranks.Step()) ASSERT_OK(report.status());
}

std::vector<bool> Gathered(SimRanks& ranks, size_t unit) {
  std::vector<bool> gathered;
  for (int rank = 0; rank < kWorld; ++rank) {
    gathered.push_back(ranks.optimizer(rank).IsGathered(unit));
  }
  return gathered;
}

constexpr float kSaved = 40;
constexpr int64_t kSavedSteps = 7;

SimRanks::Action ResumeAfter(int64_t steps) {
  return {[=](ZeroOptimizer& optimizer) { return optimizer.Resume(steps); },
          [](const ZeroOptimizer&) { return true; }};
}

SimRanks::Action LoadWhenHere(size_t unit) {
  return {[=](ZeroOptimizer& optimizer) { return optimizer.StartGather(unit, Pass::kEvaluation); },
          [=](const ZeroOptimizer& optimizer) {
            if (!optimizer.IsGathered(unit)) return false;
            std::ranges::fill(optimizer.Params<float>(unit), kSaved);
            return true;
          }};
}

TEST(DeferredGathersTest, AStepEndsBeforeItsGathersWhereItMay) {
  for (const ZeroStage stage : {ZeroStage::kNaive, ZeroStage::kOne, ZeroStage::kTwo}) {
    const auto ranks = MakeRanks(stage, /*behind_forward=*/true);
    StepAll(*ranks);
    EXPECT_THAT(Gathered(*ranks, kUnits - 1), Contains(false)) << stage;
    for (size_t unit = 0; unit < kUnits; ++unit) {
      EXPECT_THAT(ranks->Gather(unit, Pass::kForward), Each(IsOk()));
      EXPECT_THAT(Gathered(*ranks, unit), Each(true));
    }
    const auto waits = MakeRanks(stage, /*behind_forward=*/false);
    StepAll(*waits);
    EXPECT_THAT(Gathered(*waits, kUnits - 1), Each(true)) << stage;
  }
}

TEST(DeferredGathersTest, WhatForwardUsesFirstComesFirst) {
  const auto ranks = MakeRanks(ZeroStage::kOne, /*behind_forward=*/true);
  StepAll(*ranks);
  EXPECT_THAT(ranks->Gather(0, Pass::kForward), Each(IsOk()));
  EXPECT_THAT(Gathered(*ranks, kUnits - 1), Contains(false));
}

// A rank that loads what was saved writes a unit's parameters as soon as its own are here, whoever
// still waits for them, and goes on from there before, amid or after it.
TEST(DeferredGathersTest, WhatIsLoadedIsNotOverwrittenByThoseThatComeLater) {
  for (const ZeroStage stage : {ZeroStage::kNaive, ZeroStage::kOne, ZeroStage::kTwo}) {
    SCOPED_TRACE(::testing::Message() << "stage " << stage);
    std::string bits[2];
    for (const bool behind_forward : {false, true}) {
      const auto ranks = MakeRanks(stage, behind_forward);
      StepAll(*ranks);
      EXPECT_EQ(Gathered(*ranks, 0) != std::vector<bool>(kWorld, true), behind_forward);
      std::vector<SimRanks::Script> scripts(kWorld);
      for (size_t rank = 0; rank < kWorld; ++rank) {
        for (size_t unit = 0; unit < kUnits; ++unit) {
          if (unit == rank) scripts[rank].push_back(ResumeAfter(kSavedSteps));
          scripts[rank].push_back(LoadWhenHere(unit));
        }
      }
      EXPECT_THAT(ranks->Go(scripts), Each(IsOk()));
      for (size_t unit = 0; unit < kUnits; ++unit) {
        EXPECT_THAT(ranks->Gather(unit, Pass::kForward), Each(IsOk()));
        for (int rank = 0; rank < kWorld; ++rank) {
          EXPECT_THAT(ranks->optimizer(rank).Params<float>(unit), Each(kSaved));
        }
      }
      StepAll(*ranks);
      const auto report = ranks->optimizer(0).StepResult();
      ASSERT_OK(report.status());
      EXPECT_EQ(report->step, kSavedSteps + 1);
      EXPECT_EQ(report->payload_bytes, ranks->optimizer(0).ExpectedWire()->payload_bytes());
      bits[behind_forward] = ranks->StateBits(2);
    }
    EXPECT_TRUE(bits[0] == bits[1]);
  }
}

// All ranks gather a word each, of which every rank sends its own to the others.
void GatherWords(SimRanks& ranks) {
  std::vector<std::vector<int64_t>> words(kWorld, std::vector<int64_t>(kWorld));
  std::vector<Operation> operations;
  for (int rank = 0; rank < kWorld; ++rank) {
    int64_t* const all = words[static_cast<size_t>(rank)].data();
    ASSERT_OK_AND_ASSIGN(const Operation operation, ranks.communicator(rank).StartAllGather(
                                                        all + rank, all, kWorld, DType::kInt64));
    operations.push_back(operation);
  }
  EXPECT_OK(ranks.Await(absl::MakeSpan(operations)));
}

// Between two steps and amid the forward pass, while a step's gathers go on.
TEST(DeferredGathersTest, WhatTheProgramGathersMeanwhileIsNoStepsBytes) {
  for (const ZeroStage stage : {ZeroStage::kNaive, ZeroStage::kOne, ZeroStage::kTwo}) {
    const auto ranks = MakeRanks(stage, /*behind_forward=*/true);
    for (int step = 0; step < 3; ++step) {
      StepAll(*ranks);
      for (int rank = 0; rank < kWorld; ++rank) {
        EXPECT_EQ(ranks->optimizer(rank).StepResult()->payload_bytes,
                  ranks->optimizer(rank).ExpectedWire()->payload_bytes())
            << "stage " << stage << ", step " << step << ", rank " << rank;
      }
      EXPECT_THAT(Gathered(*ranks, kUnits - 1), Contains(false));
      GatherWords(*ranks);
      EXPECT_THAT(ranks->Gather(0, Pass::kForward), Each(IsOk()));
      GatherWords(*ranks);
    }
  }
}

// The first rank of which some are under way; in one thread it waits for the others in vain.
int RankThatWaits(SimRanks& ranks) {
  const std::vector<bool> gathered = Gathered(ranks, kUnits - 1);
  const auto first = std::ranges::find(gathered, false);
  EXPECT_NE(first, gathered.end());
  const int rank = static_cast<int>(first - gathered.begin());
  EXPECT_OK(ranks.communicator(rank).status());
  return rank;
}

TEST(DeferredGathersTest, InitializingAgainWaitsForThem) {
  const auto ranks = MakeRanks(ZeroStage::kOne, /*behind_forward=*/true);
  StepAll(*ranks);
  EXPECT_THAT(ranks->optimizer(RankThatWaits(*ranks)).StartInitialize([](size_t, auto) {}),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST(DeferredGathersTest, DestroyedWithThemUnderWayItWaitsForThem) {
  const auto ranks = MakeRanks(ZeroStage::kOne, /*behind_forward=*/true);
  StepAll(*ranks);
  const int rank = RankThatWaits(*ranks);
  ranks->Destroy(rank);
  EXPECT_THAT(ranks->communicator(rank).status(), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

}  // namespace
}  // namespace rz
