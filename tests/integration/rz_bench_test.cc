// rz_bench with real processes.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/subprocess.h"
#include "tools/bench/json.h"

namespace rz {
namespace {

using ::rz::testing::EndOf;
using ::rz::testing::ProgramPath;
using ::rz::testing::Subprocess;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> RzBench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ProgramPath("tools/rz_bench"));
  return arguments;
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

// The lines of numbers.
std::vector<std::string> Rows(const std::string& output) {
  std::vector<std::string> rows;
  for (const std::string& line : Lines(output)) {
    if (!absl::StartsWith(line, "#")) rows.push_back(line);
  }
  return rows;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RzBenchTest, AllOperationsAreRightOnThreeRanks) {
  Subprocess run(RzBench(
      {"all", "-np", "3", "-b", "0", "-e", "64K", "-f", "3", "-n", "5", "-w", "1", "-c", "2"}));
  EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
  const std::string output = run.Output();
  for (const char* name :
       {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "gather",
        "scatter", "sendrecv", "barrier", "reduce_scatter_v", "all_gather_v", "all_to_all_v"}) {
    EXPECT_THAT(output, HasSubstr(absl::StrCat("# Collective test starting: ", name, "\n")));
  }
  EXPECT_THAT(output, AllOf(HasSubstr("# Out of bounds values : 0 OK"), Not(HasSubstr("FAILED")),
                            HasSubstr("#  Rank  2 Group  0 Pid")));
  const std::regex row(
      R"( *\d+ +\d+ +float +(sum|none) +-?\d+( +[\d.e+]+ +[\d.]+ +[\d.]+ +0| +N/A +N/A +N/A +N/A){2})");
  for (const std::string& line : Rows(output)) EXPECT_TRUE(std::regex_match(line, row)) << line;
}

TEST(RzBenchTest, EveryKindOddCountsAndBothModesAreRight) {
  for (const char* mode : {"deterministic", "fast"}) {
    Subprocess run(RzBench({"all_reduce", "reduce_scatter",
                            "reduce",     "reduce_scatter_v",
                            "-np",        "2",
                            "-b",         "1",
                            "-e",         "40",
                            "-i",         "13",
                            "-d",         "all",
                            "-o",         "all",
                            "-n",         "1",
                            "-w",         "0",
                            "-u",         "1",
                            "--numeric",  mode}));
    EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
    EXPECT_THAT(run.Output(),
                AllOf(HasSubstr("# Out of bounds values : 0 OK"), Not(HasSubstr("FAILED")),
                      HasSubstr("avg of int8"), HasSubstr("f8e5m2  mulsum")));
  }
}

TEST(RzBenchTest, UnevenCountsGroupsAndRootsAreRight) {
  for (const char* counts : {"even", "half", "zero"}) {
    Subprocess run(RzBench({"reduce_scatter_v",
                            "all_gather_v",
                            "all_to_all_v",
                            "gather",
                            "scatter",
                            "broadcast",
                            "reduce",
                            "sendrecv",
                            "-np",
                            "3",
                            "-b",
                            "4",
                            "-e",
                            "5000",
                            "-i",
                            "1234",
                            "-n",
                            "2",
                            "-m",
                            "3",
                            "-r",
                            "all",
                            "--counts",
                            counts}));
    EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
    EXPECT_THAT(run.Output(), Not(HasSubstr("FAILED")));
  }
}

TEST(RzBenchTest, FreshInputsPercentilesAndBatchesAreMeasured) {
  for (const std::vector<std::string>& how : {std::vector<std::string>{"--fresh"},
                                              {"--percentiles", "-I", "1"},
                                              {"--batches"},
                                              {"-C", "1", "-S", "1", "-M", "1"},
                                              {"--transport", "tcp"},
                                              {"--bind", "core"},
                                              {"--link", "messages"},
                                              {"-R", "1"},
                                              {"-R", "1", "--transport", "tcp"}}) {
    std::vector<std::string> arguments = {"all_gather", "-np", "2",  "-b", "1K",
                                          "-e",         "1K",  "-n", "10"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    Subprocess run(RzBench(arguments));
    EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
    EXPECT_THAT(Rows(run.Output()), SizeIs(1));
  }
}

TEST(RzBenchTest, FilesHoldTheResultsAndNoSecret) {
  const std::string json = ::testing::TempDir() + "/bench.json";
  const std::string csv = ::testing::TempDir() + "/bench.csv";
  for (int run_number = 0; run_number < 2; ++run_number) {
    Subprocess run(RzBench({"all_reduce", "-np", "2", "-b", "8", "-e", "64", "-f", "2", "-n", "3",
                            "-J", json, "--csv", csv}),
                   "", {{"SOME_TOKEN", "hunter2"}});
    EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
  }
  for (const char* suffix : {"", ".1"}) {
    const auto parsed = ReadJson(Contents(json + suffix));
    ASSERT_OK(parsed.status());
    EXPECT_EQ(parsed->at("results.3.size"), "64");
    EXPECT_EQ(parsed->at("out_of_bounds.okay"), "true");
    EXPECT_THAT(Contents(json + suffix), Not(HasSubstr("hunter2")));
    EXPECT_THAT(Lines(Contents(csv + suffix)), SizeIs(9));
  }
}

TEST(RzBenchTest, ExplainSaysWhatWouldBeChosenAndRunsNothing) {
  Subprocess run(RzBench({"all_reduce", "all_gather_v", "-np", "4", "-b", "8", "-e", "8M", "-f",
                          "1024", "--explain", "--link", "messages"}));
  EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
  EXPECT_THAT(run.Output(), AllOf(HasSubstr("all_reduce of 2 float32 on 4 ranks"),
                                  HasSubstr("least predicted time"), HasSubstr("* ")));
  EXPECT_THAT(run.Output(), Not(HasSubstr("busbw")));
}

TEST(RzBenchTest, ThePlotIsOnePage) {
  const std::string path = ::testing::TempDir() + "/bench.html";
  Subprocess run(RzBench({"all_gather", "-np", "2", "-b", "8", "-e", "64K", "-f", "8", "-n", "3",
                          "--limit", "--plot", path}));
  EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
  EXPECT_THAT(Contents(path), AllOf(HasSubstr("<h2>all_gather, float32</h2>"), HasSubstr("limit"),
                                    HasSubstr("</html>")));
}

// A program in the place of a peer's, which says that every call takes a minute.
TEST(RzBenchTest, PeersAreMeasuredInTurn) {
  const std::string folder = ::testing::TempDir() + "/peers";
  std::filesystem::create_directory(folder);
  const std::string program = folder + "/coll_gloo";
  std::ofstream(program) << "#!/bin/sh\nfor s in $(echo $3 | tr , ' '); do\n"
                            "echo $1 $s out_of_place 60e6; echo $1 $s in_place 60e6; done\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string csv = folder + "/against.csv", html = folder + "/against.html";
  Subprocess run(RzBench({"all_reduce", "all_to_all_v", "-np", "2", "--sizes", "8,1K", "--budget",
                          "1ms", "--rounds", "2", "--against", "openmpi,gloo", "--peer-folder",
                          folder, "--csv", csv, "--plot", html}));
  EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
  EXPECT_THAT(
      run.Output(),
      AllOf(HasSubstr("# openmpi: left out, there is no "), HasSubstr("tools/setup"),
            HasSubstr("# all_reduce, float sum, in place"),
            HasSubstr("# all_to_all_v: no peer has it"), HasSubstr("# best peer / ringzero")));
  EXPECT_THAT(Lines(Contents(csv)), SizeIs(1 + 3 * 2 * 2));
  EXPECT_THAT(Contents(html), HasSubstr("gloo"));
}

// Those that are installed where this runs.
TEST(RzBenchTest, InstalledPeersAreBuiltAndMeasured) {
  const std::string folder = ::testing::TempDir() + "/built_peers";
  Subprocess build({ProgramPath("tools/bench/peers/build"), folder});
  if (EndOf(build).exit_code != 0) {
    EXPECT_THAT(build.ErrorOutput(), HasSubstr("no peer is installed"));
    GTEST_SKIP() << "no peer is installed: tools/setup --with peers";
  }
  Subprocess run(RzBench({"all_reduce", "all_gather", "reduce_scatter", "-np", "2", "--sizes", "4K",
                          "--budget", "1ms", "--rounds", "1", "--against", "openmpi,mpich,gloo",
                          "--peer-folder", folder}));
  EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
  for (const char* operation : {"all_reduce", "all_gather", "reduce_scatter"}) {
    EXPECT_THAT(run.Output(), HasSubstr(absl::StrCat("# ", operation, ", float")));
  }
  for (const char* peer : {"openmpi", "mpich", "gloo"}) {
    if (!std::filesystem::exists(absl::StrCat(folder, "/coll_", peer))) continue;
    EXPECT_THAT(run.Output(), HasSubstr(absl::StrCat("# ", peer, " a: ")));
  }
  EXPECT_THAT(run.Output(), HasSubstr("# best peer / ringzero"));
}

TEST(RzBenchTest, WithoutAnyPeerThereIsNothingToCompare) {
  Subprocess run(RzBench({"all_reduce", "--against", "mpich", "--peer-folder", "/no/such/folder"}));
  EXPECT_EQ(EndOf(run).exit_code, 1);
  EXPECT_THAT(run.ErrorOutput(), HasSubstr("no peer's program is in /no/such/folder"));
}

TEST(RzBenchTest, WithinAJobItJoins) {
  Subprocess run({ProgramPath("tools/rz_run"), "-n", "2", "--", ProgramPath("tools/rz_bench"),
                  "barrier", "-n", "3"});
  EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
  EXPECT_THAT(run.Output(), HasSubstr("[0] # nRanks 2"));
  Subprocess other({ProgramPath("tools/rz_run"), "-n", "2", "--", ProgramPath("tools/rz_bench"),
                    "barrier", "-np", "3"});
  EXPECT_EQ(EndOf(other).exit_code, 2);
  EXPECT_THAT(other.ErrorOutput(), HasSubstr("-np 3 within a job of 2 ranks"));
}

TEST(RzBenchTest, AloneItSaysSo) {
  Subprocess run(RzBench({"all_reduce", "-b", "8", "-e", "8", "-n", "3"}));
  EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
  EXPECT_THAT(run.Output(), HasSubstr("One rank alone"));
}

TEST(RzBenchTest, MisuseIsOneLineAndNothingIsLeft) {
  const std::vector<std::tuple<std::vector<std::string>, int, std::string>> cases = {
      {{}, 2, "which operation"},
      {{"all_redcue"}, 2, "did you mean all_reduce"},
      {{"all", "-g", "8"}, 2, "-np"},
      {{"all", "-b", "1X"}, 2, "a size such as"},
      {{"all", "-np", "2", "--algo", "all_reduce:magic"}, 2, "magic"},
      {{"broadcast", "-r", "7", "-np", "2"}, 2, "-r 7"},
      {{"broadcast", "-r", "7"}, 1, "-r 7"},
      {{"all", "-J", "/no/such/folder/x.json", "-np", "2"}, 1, "/no/such/folder/x.json"},
  };
  for (const auto& [arguments, code, message] : cases) {
    Subprocess run(RzBench(arguments));
    EXPECT_EQ(EndOf(run).exit_code, code) << message;
    EXPECT_THAT(run.ErrorOutput(), AllOf(HasSubstr("rz_bench: "), HasSubstr(message)));
    EXPECT_THAT(Lines(run.ErrorOutput()), SizeIs(1));
  }
}

TEST(RzBenchTest, HelpShowsExamples) {
  Subprocess run(RzBench({"--help"}));
  EXPECT_EQ(EndOf(run).exit_code, 0);
  EXPECT_THAT(run.Output(), AllOf(HasSubstr("examples:"), HasSubstr("rz_bench all_reduce -np 2")));
}

}  // namespace
}  // namespace rz
