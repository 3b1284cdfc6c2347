#include "tools/bench/bench_config.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tools/bench/foreign_flags.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

absl::StatusOr<BenchConfig> Read(const std::vector<std::string>& arguments,
                                 const std::string& environment_algorithms = "") {
  FlagSet flags("rz_bench", "");
  BenchFlags bench_flags;
  ForeignFlags foreign_flags;
  flags.Positional("OPERATION|all");
  bench_flags.Declare(&flags);
  foreign_flags.Declare(&flags);
  if (absl::Status status = flags.Parse(arguments); !status.ok()) return status;
  if (absl::Status status = foreign_flags.Check(); !status.ok()) return status;
  return bench_flags.Read(flags, environment_algorithms);
}

BenchConfig Config(const std::vector<std::string>& arguments) {
  const absl::StatusOr<BenchConfig> config = Read(arguments);
  EXPECT_OK(config.status());
  return config.ok() ? *config : BenchConfig();
}

TEST(BenchConfigTest, ACommandLineOfNcclTestsIsUnderstood) {
  const BenchConfig config = Config({"reduce_scatter",
                                     "-b",
                                     "8",
                                     "-e",
                                     "256M",
                                     "-f",
                                     "2",
                                     "-n",
                                     "20",
                                     "-w",
                                     "5",
                                     "-c",
                                     "3",
                                     "-d",
                                     "half",
                                     "-o",
                                     "max",
                                     "-r",
                                     "1",
                                     "-R",
                                     "0",
                                     "-g",
                                     "1",
                                     "-t",
                                     "1",
                                     "-z",
                                     "1",
                                     "-a",
                                     "3",
                                     "-m",
                                     "4",
                                     "-N",
                                     "2",
                                     "-T",
                                     "30",
                                     "-S",
                                     "1",
                                     "-C",
                                     "1",
                                     "-I",
                                     "1",
                                     "-u",
                                     "3",
                                     "-K",
                                     "1",
                                     "-J",
                                     "x.json"});
  EXPECT_THAT(config.operations, ElementsAre(BenchOperation::kReduceScatter));
  EXPECT_THAT(config.sizes, SizeIs(26));
  EXPECT_EQ(config.sizes.back(), int64_t{256} << 20);
  EXPECT_EQ(config.plan.iterations, 20);
  EXPECT_EQ(config.plan.warmup, 5);
  EXPECT_EQ(config.plan.average, RankAverage::kMax);
  EXPECT_EQ(config.plan.sampling, Sampling::kEach);
  EXPECT_EQ(config.plan.skip_samples, 1);
  EXPECT_TRUE(config.plan.cpu_time);
  EXPECT_EQ(config.checks, 3);
  EXPECT_EQ(config.aggregate, 4);
  EXPECT_EQ(config.cycles, 2);
  EXPECT_EQ(config.unalign, 3);
  EXPECT_EQ(config.root, 1);
  EXPECT_EQ(config.timeout, absl::Seconds(30));
  EXPECT_TRUE(config.columns.timestamps && config.columns.cpu_time && config.columns.per_iteration);
  EXPECT_EQ(config.json_path, "x.json");
  EXPECT_THAT(config.dtypes, ElementsAre(DType::kFloat16));
  EXPECT_THAT(config.ops, ElementsAre(ReduceOp::kMax));
}

TEST(BenchConfigTest, WithoutFlagsOneSizeAndWhatTheBudgetAllows) {
  const BenchConfig config = Config({"all"});
  EXPECT_THAT(config.sizes, ElementsAre(int64_t{32} << 20));
  EXPECT_EQ(config.plan.iterations, 0);
  EXPECT_EQ(config.plan.sampling, Sampling::kPlain);
  EXPECT_EQ(config.checks, 1);
  EXPECT_THAT(config.operations, SizeIs(13));
}

TEST(BenchConfigTest, AllKindsButThoseWithoutMeaning) {
  const BenchConfig config = Config({"all", "-d", "all", "-o", "all", "-r", "all"});
  EXPECT_TRUE(config.all_roots);
  EXPECT_THAT(config.KindsOf(BenchOperation::kAllReduce), SizeIs(12 * 6 - 6));
  EXPECT_THAT(config.KindsOf(BenchOperation::kAllGather), SizeIs(12));
  EXPECT_THAT(config.KindsOf(BenchOperation::kBarrier), SizeIs(1));
  EXPECT_THAT(config.SkippedKinds(), HasSubstr("avg of int32"));
  EXPECT_EQ(Config({"all"}).SkippedKinds(), "");
}

TEST(BenchConfigTest, TheCommandLineBeatsTheEnvironment) {
  EXPECT_EQ(Read({"all"}, "all_reduce:ring")->algorithms, "all_reduce:ring");
  EXPECT_EQ(Read({"all", "--algo", "all_gather:ring"}, "all_reduce:ring")->algorithms,
            "all_gather:ring");
}

TEST(BenchConfigTest, MemoryIsSharedUnlessMessagesAreAskedFor) {
  EXPECT_TRUE(Config({"all"}).share_memory);
  EXPECT_FALSE(Config({"all", "--link", "messages"}).share_memory);
  EXPECT_FALSE(Config({"all", "--transport", "tcp"}).share_memory);
}

TEST(BenchConfigTest, AComparisonShowsRegisteredBuffersBesideUnlessOneKindIsAskedFor) {
  EXPECT_TRUE(Config({"all"}).registered_beside);
  EXPECT_FALSE(Config({"all", "-R", "0"}).registered_beside);
  EXPECT_FALSE(Config({"all", "-R", "1"}).registered_beside);
  EXPECT_FALSE(Config({"all", "--transport", "tcp"}).registered_beside);
}

TEST(BenchConfigTest, RanksThatAreToldOtherThingsDoNotAgree) {
  BenchConfig one = Config({"all"}), other = one;
  EXPECT_EQ(one.AgreementHash(), other.AgreementHash());
  other.arguments = {"-n", "3"};
  EXPECT_NE(one.AgreementHash(), other.AgreementHash());
}

TEST(BenchConfigTest, WhatCannotBeIsRefusedInOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "which operation"},
      {{"all_redcue"}, "did you mean all_reduce"},
      {{"all", "-d", "flaot32"}, "did you mean float32"},
      {{"all", "-o", "mean"}, "-o takes one of all, sum"},
      {{"all_reduce", "-o", "avg", "-d", "int8"}, "avg"},
      {{"all", "-r", "-1"}, "-r takes a rank or all"},
      {{"all", "-b", "2", "-e", "1"}, "-e 1 is below -b 2"},
      {{"all", "--algo", "all_reduce:magic"}, "magic"},
      {{"all", "--algo", "all_reduce:ring_wire"}, "deterministic"},
      {{"all", "-r", "4", "-np", "4"}, "-r 4 is not a rank of 0 to 3"},
      {{"all", "-R", "2"}, "-R 2"},
      {{"all", "-R", "3"}, "-R"},
      {{"all", "-g", "2"}, "-np says how many"},
      {{"all", "-t", "2"}, "-np says how many"},
      {{"all", "-G", "1"}, "no GPU graphs"},
      {{"all", "-a", "4"}, "-a"},
      {{"all", "-np", "0"}, "-np"},
      {{"all", "--fresh", "--batches"}, "exclude"},
      {{"all", "-I", "1", "-n", "1000000000"}, "at most"},
      {{"all", "--against", "nccl"}, "--against takes openmpi,mpich,gloo"},
      {{"all", "--against-default"}, "needs --against"},
      {{"all", "--against", "gloo", "-d", "half"}, "float sums"},
      {{"all", "--against", "gloo", "-n", "5"}, "by --budget"},
      {{"all", "--sizes", "8,x"}, "--sizes"},
      {{"all", "-N", "0", "--csv", "x"}, "-N 0 never ends"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_THAT(Read(arguments), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

}  // namespace
}  // namespace rz
