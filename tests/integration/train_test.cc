// rz_train in real processes, started by rz_run or by hand: what several ranks compute, what they
// say, and how they end.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "runtime/base/simd_level.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/hand_started_ranks.h"
#include "tests/integration/subprocess.h"
#include "tests/integration/train_ranks.h"
#include "tools/train/run_report.h"

namespace rz {
namespace {

using ::rz::testing::Arguments;
using ::rz::testing::Concat;
using ::rz::testing::Ending;
using ::rz::testing::EndOf;
using ::rz::testing::ProgramPath;
using ::rz::testing::Subprocess;
using ::rz::testing::TrainRanks;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kTrain[] = "tools/rz_train";

using Environment = Subprocess::Environment;

// 20-24-16-5 has 989 parameters: a multiple of neither 2, 3, 4, 5 nor 8.
const Arguments kSmall = {"--dataset=synthetic", "--model=20-24-16-5", "--global-batch=50",
                          "--steps=12"};

ReferenceRun Train(int ranks, const Arguments& arguments, const Environment& environment = {}) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/report.json");
  std::filesystem::remove(path);
  const Ending result =
      TrainRanks(ranks, Concat(arguments, {absl::StrCat("--report=", path)}), environment);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const absl::StatusOr<ReferenceRun> run = ReadReference(path);
  EXPECT_OK(run);
  if (!run.ok()) return {};
  EXPECT_THAT(result.out, HasSubstr("weights crc32c " + run->weights_crc32c));
  return *run;
}

// Losses within `tolerance` relatively, norms (which AdamW's weights hardly show) within four of
// it.
void ExpectSameSteps(const ReferenceRun& run, const ReferenceRun& reference, double tolerance) {
  ASSERT_EQ(run.losses.size(), reference.losses.size());
  ASSERT_EQ(run.norms.size(), run.losses.size());
  for (size_t i = 0; i < run.losses.size(); ++i) {
    EXPECT_NEAR(run.losses[i] / reference.losses[i], 1, tolerance) << "loss of step " << i + 1;
    EXPECT_NEAR(run.norms[i] / reference.norms[i], 1, 4 * tolerance) << "norm of step " << i + 1;
  }
}

class TrainTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string dtype() const { return absl::StrCat("--dtype=", GetParam()); }
  bool wide() const { return std::string(GetParam()) == "fp32"; }
};

INSTANTIATE_TEST_SUITE_P(DTypes, TrainTest, ::testing::Values("bf16", "fp32"),
                         [](const auto& info) { return std::string(info.param); });

// A rank's own rounding of its gradients differs with its share; 2^-8 is one bfloat16 rounding.
TEST_P(TrainTest, AnyNumberOfRanks_HasTheLossesOfOne) {
  const Arguments arguments = Concat(kSmall, {dtype()});
  const ReferenceRun alone = Train(1, arguments);
  ASSERT_EQ(alone.losses.size(), 12u);
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  for (const int ranks : {2, 3, 4, 5, 8}) {
    SCOPED_TRACE(ranks);
    ExpectSameSteps(Train(ranks, arguments), alone, wide() ? 1e-5 : 1.0 / 256);
  }
}

TEST_P(TrainTest, StageAndAlgorithmAndTransport_GiveTheSameBits) {
  for (const int ranks : {3, 4}) {
    std::map<std::string, std::string> crcs;  // crc -> who had it
    for (const char* stage : {"ddp", "1", "3"}) {
      for (const char* algorithm : {"", "all_reduce:ring,reduce_scatter:ring",
                                    "all_reduce:pairwise,reduce_scatter:pairwise"}) {
        const ReferenceRun run =
            Train(ranks, Concat(kSmall, {dtype(), absl::StrCat("--stage=", stage)}),
                  {{"RZ_ALGO", algorithm}});
        absl::StrAppend(&crcs[run.weights_crc32c], " [", stage, " ", algorithm, "]");
      }
    }
    absl::StrAppend(
        &crcs[Train(ranks, Concat(kSmall, {dtype(), "--transport=tcp"})).weights_crc32c], " tcp");
    EXPECT_EQ(crcs.size(), 1u) << ::testing::PrintToString(crcs);
  }
}

// --overlap alone moves nothing while a rank computes; the thread does.
TEST_P(TrainTest, ProgressThread_ChangesNoBit) {
  std::map<std::string, std::string> crcs;
  for (const char* stage : {"ddp", "naive", "1", "2", "3"}) {
    for (const char* thread : {"on", "off", "auto"}) {
      for (const char* transport : {"tcp", "auto"}) {
        const Arguments arguments =
            Concat(kSmall, {dtype(), absl::StrCat("--stage=", stage), "--overlap",
                            absl::StrCat("--progress-thread=", thread),
                            absl::StrCat("--transport=", transport)});
        absl::StrAppend(&crcs[Train(2, arguments).weights_crc32c], " [", stage, " ", thread, " ",
                        transport, "]");
      }
    }
  }
  EXPECT_EQ(crcs.size(), 1u) << ::testing::PrintToString(crcs);
}

TEST_P(TrainTest, EveryStage_GivesTheSameBitsOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    std::map<std::string, std::string> crcs;
    for (const char* stage : {"ddp", "naive", "1", "2", "3"}) {
      const Arguments arguments = Concat(kSmall, {dtype(), absl::StrCat("--stage=", stage)});
      absl::StrAppend(&crcs[Train(ranks, arguments).weights_crc32c], " ", stage);
    }
    EXPECT_EQ(crcs.size(), 1u) << ranks << " ranks: " << ::testing::PrintToString(crcs);
  }
}

// Each policy has its own rounding, and one result over all stages.
TEST_P(TrainTest, MicroSteps_GiveTheSameBitsInEveryStageAndNearlyThoseOfOne) {
  const ReferenceRun whole = Train(3, Concat(kSmall, {dtype()}));
  for (const char* policy : {"local", "shard"}) {
    std::map<std::string, std::string> crcs;
    for (const char* stage : {"ddp", "1", "2", "3"}) {
      const ReferenceRun run =
          Train(3, Concat(kSmall, {dtype(), absl::StrCat("--stage=", stage), "--accumulate=4",
                                   absl::StrCat("--accumulation=", policy)}));
      absl::StrAppend(&crcs[run.weights_crc32c], " ", stage);
      ExpectSameSteps(run, whole, wide() ? 1e-5 : 1.0 / 64);
    }
    EXPECT_EQ(crcs.size(), 1u) << policy << ": " << ::testing::PrintToString(crcs);
  }
}

TEST_P(TrainTest, EverySimdLevel_GivesTheSameBits) {
  std::map<std::string, std::string> crcs;
  for (const SimdLevel level : SupportedSimdLevels()) {
    const std::string name(NameOf(level));
    absl::StrAppend(&crcs[Train(2, Concat(kSmall, {dtype()}), {{"RZ_SIMD", name}}).weights_crc32c],
                    name);
  }
  EXPECT_EQ(crcs.size(), 1u) << ::testing::PrintToString(crcs);
}

TEST_P(TrainTest, FastMode_StaysNear) {
  const ReferenceRun exact = Train(4, Concat(kSmall, {dtype()}));
  const ReferenceRun fast = Train(4, Concat(kSmall, {dtype(), "--numeric=fast"}));
  ExpectSameSteps(fast, exact, wide() ? 1e-5 : 1.0 / 64);
}

TEST_P(TrainTest, MoreRanksThanSamplesOfABatch_Works) {
  const Arguments arguments = Concat(kSmall, {dtype(), "--global-batch=3"});
  ExpectSameSteps(Train(5, arguments), Train(1, arguments), wide() ? 1e-5 : 1.0 / 64);
}

TEST(TrainOptimizerTest, EachLearnsAndGivesTheSameBitsInEveryStage) {
  const std::vector<Arguments> optimizers = {
      {"--optimizer=Adam"},
      {"--optimizer=SGD", "--lr=0.1", "--momentum=0.9", "--nesterov", "--schedule=WarmupCosineLR",
       "--warmup=linear", "--warmup-steps=3"},
      {"--optimizer=Lion", "--lr=0.001", "--dtype=fp32"},
      {"--optimizer=Adagrad", "--clip=0.5", "--dtype=fp16"},
      {"--dtype=fp16", "--loss-scale=1024", "--schedule=WarmupDecayLR", "--warmup-steps=2"}};
  for (const Arguments& optimizer : optimizers) {
    SCOPED_TRACE(::testing::PrintToString(optimizer));
    const Arguments arguments = Concat(Concat(kSmall, {"--steps=20"}), optimizer);
    const ReferenceRun ddp = Train(3, Concat(arguments, {"--stage=ddp"}));
    const ReferenceRun sharded = Train(3, Concat(arguments, {"--stage=1"}));
    EXPECT_EQ(sharded.weights_crc32c, ddp.weights_crc32c);
    ASSERT_EQ(ddp.losses.size(), 20u);
    EXPECT_LT(ddp.losses.back(), ddp.losses.front());
  }
}

// 4096 samples in batches of 600: the last batch of an epoch has 496.
TEST(TrainOutputTest, Epochs_PrintAccuracyAndTheLastBatchCounts) {
  const Ending result =
      TrainRanks(3, {"--dataset=synthetic", "--model=20-24-5", "--global-batch=600", "--epochs=4"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("28 steps of 7 an epoch"),
                                ContainsRegex("epoch 1/4 .* 7/7 loss .* test accuracy 0\\."),
                                ContainsRegex("epoch 4/4 .* 7/7 loss .* test accuracy 0\\.")));
}

TEST(TrainOutputTest, OutputOfARun) {
  const std::string report = absl::StrCat(::testing::TempDir(), "/ddp.json");
  const Arguments ring =
      Concat(kSmall, {"--algo=all_reduce:ring,reduce_scatter:ring,all_gather:ring"});
  const Ending ddp =
      TrainRanks(4, Concat(ring, {"--stage=ddp", absl::StrCat("--report=", report)}));
  ASSERT_EQ(ddp.exit_code, 0) << ddp.err;
  const Ending zero = TrainRanks(4, Concat(ring, {absl::StrCat("--reference=", report)}));
  ASSERT_EQ(zero.exit_code, 0) << zero.err;
  EXPECT_THAT(zero.err, IsEmpty());
  EXPECT_THAT(
      zero.out,
      AllOf(ContainsRegex("step 12 loss [0-9.]+ lr 0.0015 norm [0-9.]+ scale 1 samples/s [0-9]+ "
                          "forward [0-9.]+ backward [0-9.]+ comm [0-9.]+ optim [0-9.]+ ms mem "
                          "[0-9.]+ MB measured, ddp [0-9.]+ MB by formula"),
            HasSubstr("algorithms: reduce_scatter ring (float32 partial sums"),
            // 989 parameters are 1152 elements with padding, 288 a rank: 3 * 288 * (4 + 2) bytes.
            HasSubstr("wire: 5184 payload bytes a step a rank counted, 5184 by the formula"),
            // Of a moment: formula, measured, padding, difference.
            ContainsRegex("moment 2 +\\| +3956 +4608 +652 +0 \\| +989 +1152 +163 +0"),
            HasSubstr("over 4 ranks: mean, least, most (rank)"),
            ContainsRegex("exposed communication \\| +[0-9.]+ +[0-9.]+ +[0-9.]+ \\([0-3]\\)"),
            HasSubstr("test accuracy "), HasSubstr("weights crc32c "),
            Not(HasSubstr("step 12 ms, mean over ranks"))));
  EXPECT_THAT(zero.out, Not(HasSubstr("[1]")));
}

TEST(TrainOutputTest, Configuration_IsTakenAndShown) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/config.json");
  std::ofstream(path) << R"({"train_batch_size": 50, "fp16": {"enabled": true},
      "optimizer": {"type": "Lion", "params": {"lr": 1e-3}},
      "zero_optimization": {"stage": 1}, "steps_per_print": 11, "wall_clock_breakdown": true})";
  const Arguments arguments = {"--dataset=synthetic", "--model=20-24-5", "--steps=22",
                               "--config=" + path};
  const Ending run = TrainRanks(2, arguments);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("stage zero-1, float16"), HasSubstr("Lion, lr 0.001"),
                             HasSubstr("clip 1, global batch 50"), HasSubstr("scale 65536"),
                             HasSubstr("step 22 loss"),
                             ContainsRegex("step 22 ms, mean over ranks: forward [0-9.]+ \\(most "
                                           "[0-9.]+, rank [01]\\), backward .* hidden"),
                             Not(HasSubstr("step 21 loss"))));
  Subprocess print(Concat({ProgramPath(kTrain), "--print-config", "--lr=0.5"}, arguments));
  const Ending printed = EndOf(print);
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_THAT(printed.out, AllOf(HasSubstr("optimizer.params.lr = 0.5  (--lr)\n"),
                                 HasSubstr("gradient_clipping = 1  (default)\n"),
                                 HasSubstr("zero_optimization.stage = 1  (file)\n")));
}

TEST(TrainOutputTest, Compare_RunsEveryStageAndShowsOneResult) {
  const Ending result =
      TrainRanks(3, Concat(kSmall, {"--compare",
                                    "--algo=all_reduce:pairwise,reduce_scatter:pairwise,"
                                    "all_gather:ring"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // 2 other ranks, 416 elements of 2 bytes a half; the last layers are not gathered twice.
  EXPECT_THAT(result.out,
              AllOf(ContainsRegex("ddp +\\| +3328 +3328 +0 +1.00 \\|"),
                    ContainsRegex("naive +\\| +4992 +4992 +0 +1.50 \\|"),
                    ContainsRegex("2 +\\| +3328 +3328 +0 +1.00 \\|"),
                    ContainsRegex("3 +\\| +4096 +4096 +0 +1.23 \\|"), HasSubstr("zero-3"),
                    ContainsRegex("\n(\\[0\\] )? +\\| ddp +\\| naive +\\| zero-1 +\\| zero-2 +\\| "
                                  "zero-3")));
}

// Weights that grow without bound: 1 - lr * weight decay is -999999.
const Arguments kDiverging = {"--lr=1000", "--weight-decay=1000", "--steps=1000"};

TEST(TrainOutputTest, LossThatIsNotFinite_EndsTheRunAndNamesStepRankAndWeights) {
  const Ending alone = TrainRanks(1, Concat(kSmall, kDiverging));
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(
      alone.err,
      ContainsRegex("rz_train: rank 0: step [0-9]+: the loss of 50 samples of rank 0 is not "
                    "a number \\(largest weight [0-9.e+]+, in layer[0-9].weight\\)"));
  const Ending two = TrainRanks(2, Concat(kSmall, kDiverging));
  EXPECT_EQ(two.exit_code, 1);
  EXPECT_THAT(two.err, ContainsRegex("step [0-9]+: the loss of 25 samples of rank [01]"));
  EXPECT_THAT(two.out, Not(HasSubstr("weights crc32c")));
}

TEST(TrainOutputTest, FullDisk_EndsTheRun) {
  Subprocess program({"/bin/sh", "-c",
                      absl::StrCat("exec ", ProgramPath(kTrain),
                                   " --dataset synthetic --model 20-5 --steps 1 > /dev/full")});
  const Ending result = EndOf(program);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("cannot write to standard output: No space left on device"),
                    HasSubstr("rz_train: ")));
}

using HandStartedTest = ::rz::testing::HandStartedRanks;

TEST_F(HandStartedTest, RankKilled_TheOthersStopAndNameIt) {
  constexpr int kWorld = 4;
  constexpr int kVictim = 2;
  std::vector<std::unique_ptr<Subprocess>> ranks;
  ranks.reserve(kWorld);
  for (int rank = 0; rank < kWorld; ++rank) {
    ranks.push_back(StartRank(rank, kWorld, Concat(kSmall, {"--steps=1000000000"})));
  }
  ASSERT_TRUE(ranks[0]->WaitForOutput("step 20 "));
  ranks[kVictim]->Signal(SIGKILL);
  for (int rank = 0; rank < kWorld; ++rank) {
    const Ending result = EndOf(*ranks[static_cast<size_t>(rank)]);
    if (rank == kVictim) {
      EXPECT_EQ(result.exit_code, 128 + SIGKILL);
      continue;
    }
    EXPECT_EQ(result.exit_code, 1) << rank;
    EXPECT_THAT(result.err, AllOf(ContainsRegex(absl::StrCat("rz_train: rank ", rank,
                                                             ": step "
                                                             "[0-9]+: ")),
                                  HasSubstr("rank 2")));
  }
}

TEST_F(HandStartedTest, RendezvousKilledThenARank_TheOthersStillStopAndNameIt) {
  std::vector<std::unique_ptr<Subprocess>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(StartRank(
        rank, 3,
        Concat(kSmall, {"--steps=1000000000", "--transport=tcp", "--connect-timeout=1h"})));
  }
  ASSERT_TRUE(ranks[0]->WaitForOutput("step 20 "));
  rendezvous_->Signal(SIGKILL);
  rendezvous_.reset();
  ranks[2]->Signal(SIGKILL);
  EXPECT_EQ(EndOf(*ranks[2]).exit_code, 128 + SIGKILL);
  std::string said;
  for (int rank = 0; rank < 2; ++rank) {
    const Ending result = EndOf(*ranks[static_cast<size_t>(rank)]);
    EXPECT_EQ(result.exit_code, 1) << rank;
    said += result.err;
  }
  EXPECT_THAT(said, AllOf(HasSubstr("rank 2 is lost"), HasSubstr("the rendezvous at")));
}

// Whoever comes second is refused; the other waits for a second rank that agrees.
TEST_F(HandStartedTest, RanksThatWereToldDifferently_AreRefused) {
  const std::unique_ptr<Subprocess> ranks[] = {StartRank(0, 2, kSmall),
                                               StartRank(1, 2, Concat(kSmall, {"--seed=2"}))};
  siginfo_t ended = {};
  ASSERT_EQ(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
  const Ending result = EndOf(*ranks[ended.si_pid == ranks[0]->pid() ? 0 : 1]);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("start all with the same flags"));
}

struct BadInput {
  const char* name;
  Arguments arguments;
  Environment environment;
  int exit_code;
  const char* message;
};

class BadInputTest : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputTest, IsOneLineAndAnExitCode) {
  Subprocess program(Concat({ProgramPath(kTrain)}, GetParam().arguments), "",
                     GetParam().environment);
  const Ending result = EndOf(program);
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  EXPECT_THAT(result.err,
              AllOf(::testing::StartsWith("rz_train: "), ContainsRegex(GetParam().message)));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    AllKinds, BadInputTest,
    ::testing::Values(
        BadInput{"UnknownFlag", {"--epcohs=3"}, {}, 2, "--epcohs.*--epochs"},
        BadInput{"FlagValue", {"--stage=7"}, {}, 2, "stage.*7"},
        BadInput{"NegativeSeed", {"--seed=-1"}, {}, 2, "--seed .*from 0 to .*'-1'"},
        BadInput{"JoinTimeoutOfTheEnvironment",
                 {"--dataset=synthetic"},
                 {{"RZ_JOIN_TIMEOUT", "soon"}},
                 1,
                 "RZ_JOIN_TIMEOUT=soon"},
        BadInput{"NobodyElseComes",
                 {"--dataset=synthetic", "--connect-timeout=100ms"},
                 {{"RZ_RENDEZVOUS", "127.0.0.1:1"}, {"RZ_WORLD_SIZE", "2"}},
                 1,
                 "cannot reach the rendezvous at 127.0.0.1:1 "},
        BadInput{"StepsAndEpochs", {"--steps=1", "--epochs=1"}, {}, 2, "exclude"},
        BadInput{"NoModel", {"--model=784-ten"}, {}, 2, "784-ten"},
        BadInput{"DataMissing",
                 {"--data-dir=/nowhere"},
                 {},
                 1,
                 "/nowhere/train-images-idx3-ubyte.gz.*apt-get install dataset-fashion-mnist"},
        BadInput{
            "BatchTooLarge", {"--dataset=synthetic", "--global-batch=5000"}, {}, 1, "4096.*5000"},
        BadInput{"UnknownAlgorithm",
                 {"--dataset=synthetic"},
                 {{"RZ_ALGO", "all_reduce:magic"}},
                 1,
                 "magic"},
        BadInput{
            "UnknownSimdLevel", {"--dataset=synthetic"}, {{"RZ_SIMD", "mmx"}}, 1, "mmx.*portable"},
        BadInput{"WorldOfZero",
                 {"--dataset=synthetic"},
                 {{"RZ_WORLD_SIZE", "0"}},
                 1,
                 "RZ_WORLD_SIZE.*0"},
        BadInput{"RankOutsideTheWorld",
                 {"--dataset=synthetic"},
                 {{"RZ_RENDEZVOUS", "127.0.0.1:1"}, {"RZ_WORLD_SIZE", "2"}, {"RZ_RANK", "2"}},
                 1,
                 "RZ_RANK.*2"},
        BadInput{"ReferenceMissing",
                 {"--dataset=synthetic", "--reference=/nowhere.json"},
                 {},
                 1,
                 "/nowhere.json"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rz
