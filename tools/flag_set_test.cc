#include "tools/flag_set.h"

#include <limits>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FlagSetTest : public ::testing::Test {
 protected:
  FlagSetTest() {
    flags_.Int("ranks", &ranks_, {1, 64}, "how many ranks", {"n", "np"});
    flags_.String("data-dir", &data_dir_, "where the images are");
    flags_.Double("lr", &lr_, {-1, 1}, "learning rate");
    flags_.Bool("compare", &compare_, "both stages");
    flags_.Size("bytes", &bytes_, "largest message", {"e"});
    flags_.Size("params", &params_, "parameters", {}, SizeUnit::kDecimal);
    flags_.Duration("grace", &grace_, {absl::ZeroDuration(), absl::Hours(1)}, "time to stop");
    flags_.Enum("stage", &stage_, {"ddp", "1"}, "what is sharded");
    flags_.Example("prog -n 4 -- ls");
  }

  int64_t ranks_ = 1;
  std::string data_dir_ = "/data";
  double lr_ = 0.5;
  bool compare_ = false;
  int64_t bytes_ = 0;
  int64_t params_ = 0;
  absl::Duration grace_ = absl::Seconds(5);
  std::string stage_ = "1";
  FlagSet flags_{"prog", "does things"};
};

TEST_F(FlagSetTest, DefaultsStayWhereNothingIsGiven) {
  EXPECT_OK(flags_.Parse({}));
  EXPECT_EQ(ranks_, 1);
  EXPECT_EQ(data_dir_, "/data");
  EXPECT_FALSE(flags_.WasSet("ranks"));
}

TEST_F(FlagSetTest, ReadsEveryTypeInBothSpellings) {
  EXPECT_OK(flags_.Parse({"--ranks", "4", "--data-dir=/a=b", "--lr", "-1e-3", "--compare",
                          "--bytes=2M", "--params", "1.5G", "--grace", "300ms", "--stage=ddp"}));
  EXPECT_EQ(ranks_, 4);
  EXPECT_EQ(data_dir_, "/a=b");
  EXPECT_EQ(lr_, -1e-3);
  EXPECT_TRUE(compare_);
  EXPECT_EQ(bytes_, 2 << 20);
  EXPECT_EQ(params_, 1'500'000'000);
  EXPECT_EQ(grace_, absl::Milliseconds(300));
  EXPECT_EQ(stage_, "ddp");
  EXPECT_TRUE(flags_.WasSet("ranks"));
}

TEST_F(FlagSetTest, AliasesTakeOneDash) {
  EXPECT_OK(flags_.Parse({"-np", "4", "-e", "64K"}));
  EXPECT_EQ(ranks_, 4);
  EXPECT_EQ(bytes_, 65536);
  EXPECT_OK(flags_.Parse({"-n=8"}));
  EXPECT_EQ(ranks_, 8);
  EXPECT_THAT(flags_.Parse({"--np", "4"}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(FlagSetTest, TheLastOfTwoCounts) {
  EXPECT_OK(flags_.Parse({"-n", "4", "--ranks=5"}));
  EXPECT_EQ(ranks_, 5);
}

TEST_F(FlagSetTest, SwitchesAreGivenDeniedOrSpelledOut) {
  EXPECT_OK(flags_.Parse({"--compare"}));
  EXPECT_TRUE(compare_);
  EXPECT_OK(flags_.Parse({"--no-compare"}));
  EXPECT_FALSE(compare_);
  EXPECT_OK(flags_.Parse({"--compare=yes"}));
  EXPECT_TRUE(compare_);
  EXPECT_THAT(flags_.Parse({"--compare=maybe"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("true or false")));
  EXPECT_THAT(flags_.Parse({"--no-ranks"}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(FlagSetTest, UnknownFlagsGetTheNearestName) {
  EXPECT_THAT(flags_.Parse({"--rnaks", "4"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--rnaks"), HasSubstr("did you mean --ranks?"))));
  EXPECT_THAT(
      flags_.Parse({"--quantum-foam"}),
      StatusIs(absl::StatusCode::kInvalidArgument, ::testing::Not(HasSubstr("did you mean"))));
}

TEST_F(FlagSetTest, MalformedValuesSayWhatIsExpected) {
  EXPECT_THAT(flags_.Parse({"-n", "four"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("-n takes a whole number from 1 to 64, not 'four'")));
  EXPECT_THAT(flags_.Parse({"-n", "99999999999999999999"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(flags_.Parse({"-n", ""}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(flags_.Parse({"--lr", "nan"}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(flags_.Parse({"--grace", "-1s"}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(flags_.Parse({"--grace", "soon"}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(flags_.Parse({"--stage", "3"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one of ddp, 1")));
  EXPECT_THAT(flags_.Parse({"--ranks"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs a value")));
  EXPECT_EQ(ranks_, 1);
}

TEST_F(FlagSetTest, ChoicesAreKnownInAnyCaseAndSpelledAsDeclared) {
  EXPECT_OK(flags_.Parse({"--stage=DDP"}));
  EXPECT_EQ(stage_, "ddp");
}

TEST_F(FlagSetTest, NumbersAtTheEndsOfTheirRangeAndBeyond) {
  EXPECT_OK(flags_.Parse({"-n", "1", "--lr=-1", "--grace=0"}));
  EXPECT_OK(flags_.Parse({"-n", "64", "--lr=1", "--grace=1h"}));
  EXPECT_EQ(ranks_, 64);
  EXPECT_EQ(grace_, absl::Hours(1));
  const std::pair<const char*, const char*> wrong[] = {
      {"--ranks=0", "from 1 to 64, not '0'"},      {"--ranks=65", "from 1 to 64, not '65'"},
      {"--lr=1.001", "from -1 to 1, not '1.001'"}, {"--lr=inf", "from -1 to 1, not 'inf'"},
      {"--lr=nan", "from -1 to 1, not 'nan'"},     {"--grace=-1ms", "from 0 to 1h, not '-1ms'"},
      {"--grace=3601", "from 0 to 1h, not '3601'"}};
  for (const auto& [argument, message] : wrong) {
    EXPECT_THAT(flags_.Parse({argument}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
  EXPECT_EQ(ranks_, 64);
}

TEST_F(FlagSetTest, BareNumbersOfDurationsAreSeconds) {
  EXPECT_OK(flags_.Parse({"--grace", "2.5"}));
  EXPECT_EQ(grace_, absl::Seconds(2.5));
}

TEST_F(FlagSetTest, KeepsEverythingBehindTwoDashes) {
  EXPECT_THAT(flags_.Parse({"--", "ls"}), StatusIs(absl::StatusCode::kInvalidArgument));
  flags_.Rest("PROGRAM ARGS");
  EXPECT_OK(flags_.Parse({"-n", "2", "--", "ls", "--rnaks", "--help", "--"}));
  EXPECT_THAT(flags_.rest(), ElementsAre("ls", "--rnaks", "--help", "--"));
  EXPECT_FALSE(flags_.help_requested());
}

TEST_F(FlagSetTest, PositionalArgumentsOnlyWhereDeclared) {
  EXPECT_THAT(flags_.Parse({"all_reduce"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("all_reduce")));
  flags_.Positional("OPERATION");
  EXPECT_OK(flags_.Parse({"all_reduce", "-n", "2", "-"}));
  EXPECT_THAT(flags_.positional(), ElementsAre("all_reduce", "-"));
}

TEST_F(FlagSetTest, HelpShowsFlagsDefaultsAndExamples) {
  EXPECT_OK(flags_.Parse({"--help", "--nonsense"}));
  EXPECT_TRUE(flags_.help_requested());
  EXPECT_THAT(flags_.Help(),
              AllOf(HasSubstr("prog: does things"), HasSubstr("--ranks, -n, -np N"),
                    HasSubstr("(default 5s)"), HasSubstr("ddp|1"), HasSubstr("prog -n 4 -- ls"),
                    HasSubstr("exit codes: 0 ok, 1 failed")));
  EXPECT_THAT(flags_.Help(), Not(HasSubstr("environment:")));
  FlagSet fresh("prog", "");
  EXPECT_OK(fresh.Parse({"--version"}));
  EXPECT_TRUE(fresh.version_requested());
  EXPECT_THAT(fresh.Version(), HasSubstr("prog (ringzero) "));
}

TEST_F(FlagSetTest, HelpSaysWhatItDoesWhatItReadsAndInWhichUnits) {
  flags_.Description("It does them twice.");
  flags_.Environment("PROG_HOME", "where it lives");
  EXPECT_THAT(
      flags_.Help(),
      AllOf(HasSubstr("usage: prog [FLAGS]\n\nIt does them twice.\n\nflags:\n"),
            HasSubstr("\nenvironment:\n  PROG_HOME                where it lives\n\nexamples:"),
            HasSubstr("K, M, G and T are powers of 1024 (--params: of 1000), Ki"),
            HasSubstr("TIME is like 300ms")));
}

TEST(FlagSetDefaultsTest, AreShownWhereTheFlagTakesThem) {
  int64_t steps = 0, slice = 1536, buffer = 32 << 20, flops = 25'000'000'000;
  double rate = 0;
  FlagSet flags("prog", "");
  flags.Int("steps", &steps, {1, 10}, "in all");
  flags.Double("rate", &rate, {0, 1}, "of change");
  flags.Size("slice", &slice, "of a message");
  flags.Size("buffer", &buffer, "of all");
  flags.Size("flops", &flops, "a second", {}, SizeUnit::kDecimal);
  EXPECT_THAT(flags.Help(),
              AllOf(HasSubstr("in all\n"), HasSubstr("of change (default 0)"),
                    HasSubstr("of a message (default 1536)"), HasSubstr("of all (default 32M)"),
                    HasSubstr("a second (default 25G)")));
  EXPECT_THAT(flags.Help(), Not(HasSubstr("TIME")));
}

TEST_F(FlagSetTest, SetNamesAFlagWithoutDashes) {
  EXPECT_OK(flags_.Set("ranks", "3"));
  EXPECT_EQ(ranks_, 3);
  EXPECT_THAT(flags_.Set("rnaks", "3"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ParseSizeTest, SuffixesAndLimits) {
  int64_t value = 0;
  EXPECT_OK(ParseSize("0", SizeUnit::kBinary, &value));
  EXPECT_EQ(value, 0);
  EXPECT_OK(ParseSize("9223372036854775807", SizeUnit::kBinary, &value));
  EXPECT_EQ(value, std::numeric_limits<int64_t>::max());
  EXPECT_OK(ParseSize("80GB", SizeUnit::kDecimal, &value));
  EXPECT_EQ(value, 80'000'000'000);
  EXPECT_OK(ParseSize("2Gi", SizeUnit::kDecimal, &value));
  EXPECT_EQ(value, int64_t{2} << 30);
  EXPECT_OK(ParseSize("0.5k", SizeUnit::kBinary, &value));
  EXPECT_EQ(value, 512);
  for (const char* wrong : {"", "K", "1.2.3", "-1", "1X", "1KK", "1iK", "9223372036854775808",
                            "10000000T", "1.5", "0.3K", "nan", "inf", " 1", "1 K"}) {
    EXPECT_THAT(ParseSize(wrong, SizeUnit::kBinary, &value),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << wrong;
  }
}

}  // namespace
}  // namespace rz
