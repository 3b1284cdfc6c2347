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
#include <iterator>
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
#include "tests/integration/program.h"
#include "tools/train/flat_json.h"

namespace rz {
namespace {

using ::rz::testing::ProcessesWith;
using ::rz::testing::Program;
using ::rz::testing::ProgramResult;
using ::rz::testing::RunProgram;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kRun[] = "tools/rz_run";
constexpr char kTrain[] = "tools/rz_train";
constexpr char kRendezvous[] = "tools/rz_rendezvous";

// Marks every process of this test program.
constexpr char kMark[] = "RZ_TEST_MARK";
std::string Mark() { return absl::StrCat("train_test.", getpid()); }

// 20-24-16-5 has 989 parameters: a multiple of neither 2, 3, 4, 5 nor 8.
const std::vector<std::string> kSmall = {"--dataset=synthetic", "--model=20-24-16-5",
                                         "--global-batch=50", "--steps=12"};

std::vector<std::string> Concat(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Runs the program on `ranks` ranks with rz_run.
ProgramResult RunRanks(int ranks, const std::vector<std::string>& arguments,
                       Program::Environment environment = {}) {
  environment.emplace_back(kMark, Mark());
  const ProgramResult result =
      RunProgram(Concat({kRun, "-n", absl::StrCat(ranks), "--", kTrain}, arguments), environment);
  EXPECT_THAT(ProcessesWith(kMark, Mark()), IsEmpty());
  return result;
}

// What a run leaves in its report.
struct Outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  std::string crc;
  double accuracy = 0;
};

std::vector<double> Numbers(const FlatJson& json, const std::string& name) {
  std::vector<double> numbers;
  for (auto at = json.find(name + ".0"); at != json.end();
       at = json.find(absl::StrCat(name, ".", numbers.size()))) {
    numbers.push_back(std::strtod(at->second.c_str(), nullptr));
  }
  return numbers;
}

Outcome Train(int ranks, const std::vector<std::string>& arguments,
              const Program::Environment& environment = {}) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/report.json");
  std::filesystem::remove(path);
  const ProgramResult result =
      RunRanks(ranks, Concat(arguments, {absl::StrCat("--report=", path)}), environment);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  std::ifstream file(path);
  const absl::StatusOr<FlatJson> json =
      ParseFlatJson(std::string(std::istreambuf_iterator<char>(file), {}));
  Outcome run;
  EXPECT_OK(json);
  if (!json.ok()) return run;
  run.losses = Numbers(*json, "losses");
  run.norms = Numbers(*json, "norms");
  run.crc = json->at("weights_crc32c");
  run.accuracy = std::strtod(json->at("test_accuracy").c_str(), nullptr);
  EXPECT_THAT(result.out, HasSubstr("weights crc32c " + run.crc));
  return run;
}

// Losses within `tolerance` relatively, norms (which AdamW's weights hardly show) within four of
// it.
void ExpectSameSteps(const Outcome& run, const Outcome& reference, double tolerance) {
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
  const std::vector<std::string> arguments = Concat(kSmall, {dtype()});
  const Outcome alone = Train(1, arguments);
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
    for (const char* stage : {"ddp", "1"}) {
      for (const char* algorithm : {"", "all_reduce:ring,reduce_scatter:ring",
                                    "all_reduce:pairwise,reduce_scatter:pairwise"}) {
        const Outcome run = Train(ranks, Concat(kSmall, {dtype(), absl::StrCat("--stage=", stage)}),
                                  {{"RZ_ALGO", algorithm}});
        absl::StrAppend(&crcs[run.crc], " [", stage, " ", algorithm, "]");
      }
    }
    absl::StrAppend(&crcs[Train(ranks, Concat(kSmall, {dtype(), "--transport=tcp"})).crc], " tcp");
    EXPECT_EQ(crcs.size(), 1u) << ::testing::PrintToString(crcs);
  }
}

TEST_P(TrainTest, EverySimdLevel_GivesTheSameBits) {
  std::map<std::string, std::string> crcs;
  for (const SimdLevel level : SupportedSimdLevels()) {
    const std::string name(NameOf(level));
    absl::StrAppend(&crcs[Train(2, Concat(kSmall, {dtype()}), {{"RZ_SIMD", name}}).crc], name);
  }
  EXPECT_EQ(crcs.size(), 1u) << ::testing::PrintToString(crcs);
}

TEST_P(TrainTest, FastMode_StaysNear) {
  const Outcome exact = Train(4, Concat(kSmall, {dtype()}));
  const Outcome fast = Train(4, Concat(kSmall, {dtype(), "--numeric=fast"}));
  ExpectSameSteps(fast, exact, wide() ? 1e-5 : 1.0 / 64);
}

TEST_P(TrainTest, MoreRanksThanSamplesOfABatch_Works) {
  const std::vector<std::string> arguments = Concat(kSmall, {dtype(), "--global-batch=3"});
  ExpectSameSteps(Train(5, arguments), Train(1, arguments), wide() ? 1e-5 : 1.0 / 64);
}

// 4096 samples in batches of 600: the last batch of an epoch has 496.
TEST(TrainOutputTest, Epochs_PrintAccuracyAndTheLastBatchCounts) {
  const ProgramResult result =
      RunRanks(3, {"--dataset=synthetic", "--model=20-24-5", "--global-batch=600", "--epochs=4"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("28 steps of 7 an epoch"),
                                ContainsRegex("epoch 1/4 .* 7/7 loss .* test accuracy 0\\."),
                                ContainsRegex("epoch 4/4 .* 7/7 loss .* test accuracy 0\\.")));
}

TEST(TrainOutputTest, OutputOfARun) {
  const std::string report = absl::StrCat(::testing::TempDir(), "/ddp.json");
  const std::vector<std::string> ring =
      Concat(kSmall, {"--algo=all_reduce:ring,reduce_scatter:ring,all_gather:ring"});
  const ProgramResult ddp =
      RunRanks(4, Concat(ring, {"--stage=ddp", absl::StrCat("--report=", report)}));
  ASSERT_EQ(ddp.exit_code, 0) << ddp.err;
  const ProgramResult zero = RunRanks(4, Concat(ring, {absl::StrCat("--reference=", report)}));
  ASSERT_EQ(zero.exit_code, 0) << zero.err;
  EXPECT_THAT(zero.err, IsEmpty());
  EXPECT_THAT(
      zero.out,
      AllOf(ContainsRegex("step 12 loss [0-9.]+ lr 0.0015 norm [0-9.]+ scale 1 samples/s [0-9]+ "
                          "forward [0-9.]+ backward [0-9.]+ comm [0-9.]+ optim [0-9.]+ ms mem "
                          "[0-9.]+ MB"),
            HasSubstr("algorithms: reduce_scatter ring (float32 partial sums"),
            // 989 parameters are 1152 elements with padding, 288 a rank: 3 * 288 * (4 + 2) bytes.
            HasSubstr("wire: 5184 payload bytes a step a rank counted, 5184 by the formula"),
            // Of a moment: formula, measured, padding, difference.
            ContainsRegex("moment 2 +\\| +3956 +4608 +652 +0 \\| +989 +1152 +163 +0"),
            HasSubstr("test accuracy "), HasSubstr("weights crc32c ")));
  EXPECT_THAT(zero.out, Not(HasSubstr("[1]")));
}

// Ranks started by hand, as with several terminals.
class HandStartedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rendezvous_ =
        std::make_unique<Program>(std::vector<std::string>{kRendezvous, "--listen", "127.0.0.1:0"},
                                  Program::Environment{{kMark, Mark()}});
    ASSERT_TRUE(rendezvous_->WaitForOutput("listens on 127.0.0.1:"));
    ASSERT_TRUE(rendezvous_->WaitForOutput("\n"));
    const std::vector<std::string> lines = absl::StrSplit(rendezvous_->out(), '\n');
    address_ = lines[0].substr(lines[0].rfind(' ') + 1);
  }

  void TearDown() override {
    rendezvous_->Kill(SIGTERM);
    EXPECT_EQ(rendezvous_->Wait().exit_code, 0);
    EXPECT_THAT(ProcessesWith(kMark, Mark()), IsEmpty());
  }

  std::unique_ptr<Program> StartRank(int rank, int world,
                                     const std::vector<std::string>& arguments) const {
    return std::make_unique<Program>(Concat({kTrain}, arguments),
                                     Program::Environment{{kMark, Mark()},
                                                          {"RZ_RENDEZVOUS", address_},
                                                          {"RZ_WORLD_SIZE", absl::StrCat(world)},
                                                          {"RZ_RANK", absl::StrCat(rank)}});
  }

  std::unique_ptr<Program> rendezvous_;
  std::string address_;
};

TEST_F(HandStartedTest, RankKilled_TheOthersStopAndNameIt) {
  constexpr int kWorld = 4;
  constexpr int kVictim = 2;
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 0; rank < kWorld; ++rank) {
    ranks.push_back(StartRank(rank, kWorld, Concat(kSmall, {"--steps=1000000000"})));
  }
  ASSERT_TRUE(ranks[0]->WaitForOutput("step 20 "));
  ranks[kVictim]->Kill(SIGKILL);
  for (int rank = 0; rank < kWorld; ++rank) {
    const ProgramResult result = ranks[static_cast<size_t>(rank)]->Wait();
    if (rank == kVictim) {
      EXPECT_EQ(result.signal, SIGKILL);
      continue;
    }
    EXPECT_EQ(result.exit_code, 1) << rank;
    EXPECT_THAT(result.err, AllOf(ContainsRegex(absl::StrCat("rz_train: rank ", rank,
                                                             ": step "
                                                             "[0-9]+: ")),
                                  HasSubstr("rank 2")));
  }
}

// Whoever comes second is refused; the other waits for a second rank that agrees.
TEST_F(HandStartedTest, RanksThatWereToldDifferently_AreRefused) {
  const std::unique_ptr<Program> ranks[] = {StartRank(0, 2, kSmall),
                                            StartRank(1, 2, Concat(kSmall, {"--seed=2"}))};
  siginfo_t ended = {};
  ASSERT_EQ(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
  const ProgramResult result = ranks[ended.si_pid == ranks[0]->pid() ? 0 : 1]->Wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("start all with the same flags"));
}

struct BadInput {
  const char* name;
  std::vector<std::string> arguments;
  Program::Environment environment;
  int exit_code;
  const char* message;
};

class BadInputTest : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputTest, IsOneLineAndAnExitCode) {
  Program::Environment environment = GetParam().environment;
  environment.emplace_back(kMark, Mark());
  const ProgramResult result = RunProgram(Concat({kTrain}, GetParam().arguments), environment);
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  EXPECT_THAT(result.err,
              AllOf(::testing::StartsWith("rz_train: "), ContainsRegex(GetParam().message)));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(ProcessesWith(kMark, Mark()), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    AllKinds, BadInputTest,
    ::testing::Values(
        BadInput{"UnknownFlag", {"--epcohs=3"}, {}, 2, "--epcohs.*--epochs"},
        BadInput{"FlagValue", {"--stage=7"}, {}, 2, "stage.*7"},
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
