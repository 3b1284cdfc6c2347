#include "tools/plan/plan_report.h"

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tools/bench/json.h"
#include "tools/plan/plan_advice.h"

namespace rz {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Plan {
  PlanConfig config;
  std::vector<StagePlan> stages;

  std::string table() const { return PlanTable(config, stages); }
  std::string advice() const { return PlanAdvice(config, stages); }
};

Plan Make(const std::string& params, const std::string& ranks,
          std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.end(), {"--params", params, "--ranks", ranks});
  FlagSet flags("rz_plan", "");
  PlanFlags plan_flags;
  plan_flags.Declare(&flags);
  EXPECT_OK(flags.Parse(arguments));
  Plan plan;
  plan.config = plan_flags.Read(flags).value();
  plan.stages = PlanAllStages(plan.config).value();
  return plan;
}

// The columns of the line that begins with `name`: ddp, naive, zero-1, zero-2, zero-3.
std::vector<std::string> Row(const std::string& table, const std::string& name) {
  for (const auto line : absl::StrSplit(table, '\n')) {
    if (!absl::StartsWith(line, name)) continue;
    const std::string columns(line.substr(name.size()));
    return absl::StrSplit(columns, ' ', absl::SkipEmpty());
  }
  return {};
}

// Whether what is shown rounds to what was published.
void ExpectPublished(const std::string& shown, const std::string& published) {
  const size_t point = published.find('.');
  const double digits = point == std::string::npos ? 0 : published.size() - point - 1.0;
  EXPECT_NEAR(std::atof(shown.c_str()), std::atof(published.c_str()), 0.5 * std::pow(10, -digits))
      << shown << " is not " << published;
}

TEST(PlanTableTest, GivesThePublishedFigures) {
  struct Reference {
    const char *params, *ranks, *ddp, *one, *two, *three;
  };
  for (const Reference& r : std::vector<Reference>{
           {"7.5G", "64", "120", "31.4", "16.6", "1.88"},
           {"128G", "16", "2048", "608", "368", "128"},
           {"1T", "1024", "16000", "4011.7", "2013.7", "15.6"},
           {"1557611200", "8", "24.92", "8.57", "5.84", "3.12"},
       }) {
    SCOPED_TRACE(r.params);
    const std::vector<std::string> row = Row(Make(r.params, r.ranks).table(), "model states, GB");
    ASSERT_EQ(row.size(), 5u);
    ExpectPublished(row[0], r.ddp);
    EXPECT_EQ(row[1], row[2]);
    ExpectPublished(row[2], r.one);
    ExpectPublished(row[3], r.two);
    ExpectPublished(row[4], r.three);
  }
}

TEST(PlanTableTest, OneMomentOfPaddedGpt2) {
  const auto moment = [](const char* ranks) {
    const Plan plan = Make("124475904", ranks, {"--unit", "MiB", "--states"});
    return static_cast<int>(std::atof(Row(plan.table(), "  moment 1")[2].c_str()));
  };
  EXPECT_EQ(moment("1"), 474);
  EXPECT_EQ(moment("2"), 237);
  EXPECT_EQ(moment("8"), 59);
}

TEST(PlanTableTest, OptimizerStatesOfSevenBillionAre84GigabytesAndNever28) {
  const Plan plan = Make("7G", "1", {"--memory", "80G"});
  EXPECT_EQ(Row(plan.table(), "parameters")[0], "14");
  EXPECT_EQ(Row(plan.table(), "gradients")[0], "14");
  EXPECT_EQ(Row(plan.table(), "optimizer states")[0], "84");
  EXPECT_EQ(Row(plan.table(), "model states, GB")[0], "112");
  EXPECT_THAT(plan.table() + plan.advice(), Not(HasSubstr("28")));
}

TEST(PlanTableTest, SavesAndSendsWhatTheStagesDo) {
  const std::string table = Make("7.5G", "64").table();
  EXPECT_THAT(Row(table, "less than ddp"),
              ElementsAre("-", "73.8", "%", "73.8", "%", "86.1", "%", "98.4", "%"));
  EXPECT_THAT(Row(table, "sent a step, GB"),
              ElementsAre("29.53", "44.3", "29.53", "29.53", "44.3"));
  EXPECT_THAT(Row(table, "of what ddp sends"), ElementsAre("1", "1.5", "1", "1", "1.5"));
  EXPECT_THAT(Row(table, "fits into"), IsEmpty());
  EXPECT_THAT(Row(table, "computing"), IsEmpty());
  EXPECT_THAT(Row(Make("7.5G", "8").table(), "less than ddp")[3], "65.6");
}

TEST(PlanTableTest, SmallModelsAreShownInMegabytesOrBytes) {
  EXPECT_THAT(Row(Make("247766", "4").table(), "model states, MB"),
              ElementsAre("3.96", "1.73", "1.73", "1.36", "0.99"));
  EXPECT_THAT(Row(Make("247766", "4", {"--unit", "bytes"}).table(), "model states, bytes"),
              ElementsAre("3964256", "1734362", "1734362", "1362713", "991064"));
}

TEST(PlanTableTest, MemorySaysWhatFitsAndHowLargeAModel) {
  const std::string table = Make("7.5G", "64", {"--memory", "32G"}).table();
  EXPECT_THAT(Row(table, "fits into 32 GB"), ElementsAre("no", "yes", "yes", "yes", "yes"));
  EXPECT_THAT(Row(table, "largest model that fits"),
              ElementsAre("2e9", "7.64e9", "7.64e9", "14.42e9", "128e9"));
  EXPECT_THAT(Row(Make("7.5G", "64", {"--memory", "32G", "--activations", "2G"}).table(),
                  "fits into 30 GB"),
              ElementsAre("no", "no", "no", "yes", "yes"));
}

TEST(PlanTableTest, TimesAreShownAsFarAsTheyAreKnown) {
  const std::vector<std::string> both = {"--bandwidth", "25G", "--flops", "150T"};
  const std::string table = Make("7.5G", "64", both).table();
  EXPECT_THAT(Row(table, "computing, ms")[0], "1228.8");
  EXPECT_THAT(Row(table, "communicating, ms"),
              ElementsAre("1181.2", "1771.9", "1181.2", "1181.2", "1771.9"));
  EXPECT_THAT(Row(table, "step, not overlapped, ms")[4], "3000.7");
  EXPECT_THAT(Row(table, "step, overlapped, ms")[4], "1771.9");
  EXPECT_THAT(table, AllOf(HasSubstr("4096 tokens"), HasSubstr("25 GB/s"), HasSubstr("150e12"),
                           HasSubstr("left out")));
  const std::string wire = Make("7.5G", "64", {"--bandwidth", "25G"}).table();
  EXPECT_THAT(Row(wire, "communicating, ms")[0], "1181.2");
  EXPECT_THAT(Row(wire, "step,"), IsEmpty());
}

TEST(PlanTableTest, SaysWhatTravels) {
  EXPECT_THAT(Make("1G", "8").table(), HasSubstr("reduced as bfloat16"));
  EXPECT_THAT(Make("1G", "8", {"--algo", "reduce_scatter:ring"}).table(),
              HasSubstr("reduced as float32"));
}

TEST(PlanAdviceTest, NamesTheStageAndTheReason) {
  EXPECT_EQ(Make("7.5G", "64").advice(),
            "take zero-1: it holds 31.41 GB where ddp holds 120 GB, and sends as many bytes as "
            "ddp; --memory says what fits");
  EXPECT_EQ(Make("7.5G", "64", {"--memory", "80G"}).advice(),
            "take zero-1: it holds 31.41 GB where ddp holds 120 GB, and sends as many bytes as "
            "ddp");
  EXPECT_EQ(Make("7.5G", "64", {"--memory", "40G", "--activations", "10G"}).advice(),
            "take zero-2: zero-1's 31.41 GB do not fit into 30 GB (of 40 GB, 10 GB are for "
            "activations), its own 16.64 GB do, and it sends as many bytes as ddp");
  EXPECT_EQ(
      Make("7.5G", "64", {"--memory", "8G", "--bandwidth", "25G", "--flops", "150T"}).advice(),
      "take zero-3: zero-2's 16.64 GB do not fit into 8 GB, its own 1.88 GB do, and it "
      "sends 1.5 times ddp's bytes; a step takes 1771.9 to 3000.7 ms");
}

TEST(PlanAdviceTest, SaysWhatWouldHelpWhereNothingFits) {
  EXPECT_EQ(Make("7.5G", "64", {"--memory", "1G"}).advice(),
            "no stage fits: even zero-3 needs 1.88 GB of a rank's 1 GB; it would on 120 ranks of "
            "that memory");
}

TEST(PlanAdviceTest, ARankAloneHasNobodyToShareWith) {
  EXPECT_THAT(Make("1G", "1").advice(), StartsWith("take ddp: a rank alone"));
  EXPECT_THAT(Make("1G", "1", {"--memory", "10G"}).advice(),
              AllOf(StartsWith("no stage fits"), HasSubstr("on 2 ranks")));
}

TEST(PlanFilesTest, CsvHasALineForEachStage) {
  const Plan plan = Make("7.5G", "64", {"--memory", "20G"});
  const std::vector<std::string> lines =
      absl::StrSplit(PlanCsv(plan.config, plan.stages), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines[0], StartsWith("stage,parameter_bytes,gradient_bytes,master_bytes,"));
  EXPECT_EQ(lines[4],
            "2,15000000000,234375000,468750000,468750000,468750000,16640625000,86.133,true,"
            "9014084507,29531250000,1,,,,");
}

TEST(PlanFilesTest, JsonHasTheSame) {
  const Plan plan = Make("7.5G", "64", {"--memory", "20G"});
  ASSERT_OK_AND_ASSIGN(JsonScalars json, ReadJson(PlanJson(plan.config, plan.stages)));
  EXPECT_EQ(json["format"], "ringzero plan");
  EXPECT_EQ(json["version"], "1");
  EXPECT_EQ(json["recommended"], "2");
  EXPECT_EQ(json["advice"], plan.advice());
  EXPECT_EQ(json["stages.0.stage"], "ddp");
  EXPECT_EQ(json["stages.4.state_bytes"], "1875000000");
  EXPECT_EQ(json["stages.4.fits"], "true");
  EXPECT_EQ(json["stages.1.sent_of_ddp"], "1.5");
}

}  // namespace
}  // namespace rz
