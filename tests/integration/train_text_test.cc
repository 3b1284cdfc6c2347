// rz_train on text in real processes: the transformer with every stage and any number of ranks,
// what it says and writes, and that it learns.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/simd_level.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/subprocess.h"
#include "tests/integration/train_ranks.h"
#include "tools/train/run_report.h"
#include "tools/train/text_source.h"

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

using Environment = Subprocess::Environment;

// 6,495 parameters, in units that no number of ranks divides.
const Arguments kSmall = {"--dataset=synthetic", "--model=gpt-2x3x15x13", "--global-batch=10",
                          "--steps=6",           "--sample=40",           "--temperature=1"};

// What follows `line` to the end of the output.
std::string From(const std::string& output, const std::string& line) {
  const size_t at = output.find(line);
  return at == std::string::npos ? "" : output.substr(at);
}

double NumberAfter(const std::string& output, const std::string& text) {
  const size_t at = output.rfind(text);
  return at == std::string::npos ? -1 : std::strtod(output.c_str() + at + text.size(), nullptr);
}

// Checksum and sample.
std::string ResultOf(int ranks, const Arguments& arguments, const Environment& environment = {}) {
  const Ending ending = TrainRanks(ranks, arguments, environment);
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  const std::string result = From(ending.out, "weights crc32c ");
  EXPECT_THAT(result, HasSubstr("text of the model, 40 characters"));
  return result;
}

TEST(TrainTextTest, EveryStage_GivesTheSameBitsAndTextOnAnyNumberOfRanks) {
  for (const auto& [ranks, dtype] :
       {std::pair(1, "bf16"), std::pair(2, "bf16"), std::pair(3, "fp32"), std::pair(5, "bf16")}) {
    std::map<std::string, std::string> results;
    for (const char* stage : {"ddp", "naive", "1", "2", "3"}) {
      const Arguments arguments =
          Concat(kSmall, {absl::StrCat("--stage=", stage), absl::StrCat("--dtype=", dtype)});
      absl::StrAppend(&results[ResultOf(ranks, arguments)], " ", stage);
    }
    EXPECT_EQ(results.size(), 1u) << ranks << " ranks, " << dtype << ": "
                                  << ::testing::PrintToString(results);
  }
}

TEST(TrainTextTest, EverySimdLevel_GivesTheSameBits) {
  std::map<std::string, std::string> results;
  for (const SimdLevel level : SupportedSimdLevels()) {
    const std::string name(NameOf(level));
    absl::StrAppend(&results[ResultOf(2, Concat(kSmall, {"--stage=3"}), {{"RZ_SIMD", name}})], " ",
                    name);
  }
  EXPECT_EQ(results.size(), 1u) << ::testing::PrintToString(results);
}

TEST(TrainTextTest, MicroStepsAndMoreRanksThanSamples_GiveTheSameBitsInEveryStage) {
  std::map<std::string, std::string> results;
  for (const char* stage : {"ddp", "1", "2", "3"}) {
    const Arguments arguments =
        Concat(kSmall, {"--global-batch=2", "--accumulate=2", absl::StrCat("--stage=", stage)});
    absl::StrAppend(&results[ResultOf(3, arguments)], " ", stage);
  }
  EXPECT_EQ(results.size(), 1u) << ::testing::PrintToString(results);
}

// Ranks round differently, no more.
TEST(TrainTextTest, AnyNumberOfRanks_HasTheLossesOfOne) {
  std::vector<double> alone;
  for (const int ranks : {1, 2, 3, 4}) {
    const std::string path = absl::StrCat(::testing::TempDir(), "/text.json");
    std::filesystem::remove(path);
    const Ending ending = TrainRanks(
        ranks, Concat(kSmall, {"--dtype=fp32", "--steps=20", absl::StrCat("--report=", path)}));
    ASSERT_EQ(ending.exit_code, 0) << ending.err;
    ASSERT_OK_AND_ASSIGN(const ReferenceRun run, ReadReference(path));
    if (ranks == 1) alone = run.losses;
    ASSERT_EQ(run.losses.size(), 20u);
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_NEAR(run.losses[i] / alone[i], 1, 1e-5) << ranks << " ranks, step " << i + 1;
    }
  }
}

TEST(TrainTextTest, Compare_RunsEveryStageAndShowsOneResult) {
  const Ending ending =
      TrainRanks(3, {"--dataset=synthetic", "--model=gpt-2x3x15x13", "--steps=3", "--compare"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out, AllOf(ContainsRegex("stage 3: 3 steps in .* validation loss"),
                                HasSubstr("zero-3"), Not(HasSubstr("text of the model"))));
}

// The head's weights are the embeddings of symbols, whose gradients come from both ends of the
// model; in stage 3 they are in the first unit and used with the last. 16 * 15 fewer than 6,495.
TEST(TrainTextTest, ATiedModel_HasTheSameWeightsInEveryStageAndLearns) {
  const Arguments tied = {"--dataset=synthetic", "--model=gpt-2x3x15x13-tied", "--global-batch=10",
                          "--steps=60"};
  std::string expected;
  for (const Arguments& way :
       {Arguments{"--stage=ddp"}, Arguments{"--stage=1", "--overlap"}, Arguments{"--stage=2"},
        Arguments{"--stage=3"}, Arguments{"--stage=3", "--transport=tcp", "--overlap"}}) {
    const Ending ending = TrainRanks(3, Concat(tied, way));
    ASSERT_EQ(ending.exit_code, 0) << ending.err;
    EXPECT_THAT(ending.out, HasSubstr("model gpt-2x3x15x13-tied, 6255 parameters"));
    EXPECT_LT(NumberAfter(ending.out, "validation loss "), 2.77 - 0.1);
    const std::string weights = From(ending.out, "weights crc32c ").substr(0, 23);
    if (expected.empty()) expected = weights;
    EXPECT_EQ(weights, expected) << way[0];
  }
  EXPECT_EQ(TrainRanks(2, Concat(tied, {"--steps=3", "--compare", "--accumulate=2"})).exit_code, 0);
}

TEST(TrainTextTest, Output_HasCharactersLossAndEntropies) {
  const Ending ending = TrainRanks(2, kSmall);
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.err, IsEmpty());
  EXPECT_THAT(
      ending.out,
      AllOf(HasSubstr("model gpt-2x3x15x13, "),
            HasSubstr("synthetic, 200000 characters of 16 kinds, 13846 training and 1538 "
                      "validation windows of 13"),
            ContainsRegex("step 6 loss [0-9.]+ .* samples/s [0-9]+ characters/s [0-9]+ forward "),
            ContainsRegex("validation loss [0-9.]+ nats/char \\(bigram entropy [0-9.]+, trigram "
                          "[0-9.]+; [0-9.]+ % of the characters right\\)"),
            ContainsRegex("other 0 .peak 0")));
  // Activations are counted, the first loss is that of guessing among 16.
  EXPECT_GT(NumberAfter(ending.out, "activation "), 100'000);
  EXPECT_NEAR(NumberAfter(ending.out, "step 1 loss "), 2.77, 0.5);
}

// Its letters follow from the two before them, so bigrams do not suffice.
TEST(TrainTextTest, SyntheticText_IsLearnedBeyondItsBigrams) {
  const Ending ending = TrainRanks(
      2, {"--dataset=synthetic", "--model=gpt-2x2x32x16", "--steps=600", "--lr=0.01", "--stage=3"});
  ASSERT_EQ(ending.exit_code, 0) << ending.err;
  const double loss = NumberAfter(ending.out, "validation loss ");
  EXPECT_GT(loss, 0);
  EXPECT_LT(loss, NumberAfter(ending.out, "bigram entropy ") - 0.3) << ending.out;
}

TEST(TrainTextTest, TheBible_IsLearnedBeyondItsBigrams) {
  if (absl::IsNotFound(ReadBible().status())) GTEST_SKIP() << "apt-get install bible-kjv";
  const Ending ending = TrainRanks(2, {"--dataset=bible-kjv", "--steps=250", "--sample=200"});
  ASSERT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out, AllOf(HasSubstr("bible-kjv, 4298239 characters of 73 kinds"),
                                HasSubstr("bigram entropy 2.343, trigram 1.740")));
  const double loss = NumberAfter(ending.out, "validation loss ");
  EXPECT_GT(loss, 0);
  EXPECT_LT(loss, 2.343) << ending.out;
}

TEST(TrainTextTest, AnyTextFile_AndRanksWithOtherTextsAreRefused) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/some.txt");
  std::ofstream(path) << SyntheticText(7, 3000);
  const Arguments arguments = {"--dataset=bible-kjv", "--model=gpt-1x1x8x8", "--steps=2"};
  const Ending ending = TrainRanks(2, Concat(arguments, {"--data-dir=" + path}));
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out, HasSubstr("some.txt, 3000 characters of 16 kinds"));
  const std::string folder = absl::StrCat(::testing::TempDir(), "/of_rank_");
  for (const int rank : {0, 1}) {
    std::filesystem::create_directory(absl::StrCat(folder, rank));
    std::ofstream(absl::StrCat(folder, rank, "/text")) << SyntheticText(7, 3000 + 100 * rank);
  }
  const std::string script =
      absl::StrCat("cd ", folder, "$RZ_LOCAL_RANK && exec ", ProgramPath("tools/rz_train"),
                   " --dataset=bible-kjv --model=gpt-1x1x8x8 --steps=2 --data-dir=text");
  Subprocess two({ProgramPath("tools/rz_run"), "-n", "2", "--", "/bin/sh", "-c", script});
  const Ending refused = EndOf(two);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("start all with the same flags"));
}

TEST(TrainTextTest, BadInput_IsOneLineAndAnExitCode) {
  const auto train = [](const Arguments& arguments) {
    Subprocess program(Concat({ProgramPath("tools/rz_train")}, arguments));
    return EndOf(program);
  };
  const Ending model = train({"--dataset=bible-kjv", "--model=784-10"});
  EXPECT_EQ(model.exit_code, 2);
  EXPECT_THAT(model.err, HasSubstr("expected gpt-LAYERSxHEADSxWIDTHxCONTEXT"));
  const Ending heads = train({"--dataset=bible-kjv", "--model=gpt-2x3x64x64"});
  EXPECT_EQ(heads.exit_code, 2);
  EXPECT_THAT(heads.err, HasSubstr("a width of 64 and 3 heads"));
  const Ending missing = train({"--dataset=bible-kjv", "--data-dir=/nowhere.txt"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(missing.err, "rz_train: /nowhere.txt: No such file or directory\n");
  Subprocess without({"/bin/sh", "-c",
                      absl::StrCat("PATH=/nowhere exec ", ProgramPath("tools/rz_train"),
                                   " --dataset=bible-kjv --steps=1")});
  const Ending absent = EndOf(without);
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.err, AllOf(HasSubstr("cannot run bible: No such file"),
                                HasSubstr("apt-get install bible-kjv")));
}

}  // namespace
}  // namespace rz
