// rz_train --trace in real processes: the file is what a viewer of traces needs, and what it shows
// is what the step breakdown and the model say.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/subprocess.h"
#include "tests/integration/train_ranks.h"
#include "tools/bench/json.h"

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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRanks = 3;
constexpr int kSteps = 6;
constexpr double kRounding = 0.0011;  // microseconds: two of a nanosecond's thousandths

// A complete event.
struct Event {
  int64_t rank = 0;
  int64_t lane = 0;
  double begin = 0;
  double end = 0;
  std::string category;
  std::string name;
  std::string unit;
  int64_t step = 0;
  int64_t bucket = -1;
  int64_t bytes = -1;
};

struct Trace {
  std::vector<Event> events;
  std::map<std::pair<int64_t, int64_t>, std::string> lane_names;  // by rank and lane
  JsonScalars report;
};

JsonScalars ReadFile(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const absl::StatusOr<JsonScalars> json = ReadJson(text.str());
  EXPECT_OK(json) << path;
  return json.value_or(JsonScalars());
}

double Number(const JsonScalars& json, const std::string& path, double otherwise = -1) {
  double value = otherwise;
  const auto found = json.find(path);
  if (found != json.end()) {
    EXPECT_TRUE(absl::SimpleAtod(found->second, &value)) << path;
  }
  return value;
}

std::string Text(const JsonScalars& json, const std::string& path) {
  const auto found = json.find(path);
  return found == json.end() ? "" : found->second;
}

Trace ReadTrace(const std::string& path) {
  const JsonScalars json = ReadFile(path);
  Trace trace;
  for (int64_t i = 0;; ++i) {
    const std::string at = absl::StrCat("traceEvents.", i, ".");
    const std::string phase = Text(json, at + "ph");
    if (phase.empty()) return trace;
    const auto number = [&](const char* name) {
      return static_cast<int64_t>(Number(json, at + name));
    };
    if (phase == "M") {
      if (Text(json, at + "name") != "thread_name") continue;
      trace.lane_names[{number("pid"), number("tid")}] = Text(json, at + "args.name");
      continue;
    }
    EXPECT_EQ(phase, "X");
    const double begin = Number(json, at + "ts");
    trace.events.push_back({number("pid"), number("tid"), begin, begin + Number(json, at + "dur"),
                            Text(json, at + "cat"), Text(json, at + "name"),
                            Text(json, at + "args.unit"), number("args.step"),
                            number("args.bucket"), number("args.bytes")});
  }
}

// Of a model with the units layer1 to layer3, 989 parameters, 1248 elements with padding.
Trace TraceOf(const Arguments& arguments) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/trace.json");
  const std::string report = absl::StrCat(::testing::TempDir(), "/trace_report.json");
  const Ending ending = TrainRanks(
      kRanks, Concat({"--dataset=synthetic", "--model=20-24-16-5", "--global-batch=50",
                      absl::StrCat("--steps=", kSteps), "--trace=" + path, "--report=" + report},
                     arguments));
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out, HasSubstr(absl::StrCat("trace: ", path, ": steps 1 to ", kSteps, ", ")));
  Trace trace = ReadTrace(path);
  trace.report = ReadFile(report);
  return trace;
}

class TrainTraceTest : public ::testing::TestWithParam<const char*> {
 protected:
  static Trace TraceOfStage() {
    return TraceOf({absl::StrCat("--stage=", GetParam()), "--overlap"});
  }
};

INSTANTIATE_TEST_SUITE_P(Stages, TrainTraceTest, ::testing::Values("ddp", "naive", "1", "2", "3"),
                         [](const auto& info) { return std::string(info.param); });

void ExpectLanesDoNotOverlap(Trace trace) {
  std::sort(trace.events.begin(), trace.events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.rank, a.lane, a.begin, a.end) < std::tie(b.rank, b.lane, b.begin, b.end);
  });
  for (size_t i = 1; i < trace.events.size(); ++i) {
    const Event& a = trace.events[i - 1];
    const Event& b = trace.events[i];
    if (a.rank != b.rank || a.lane != b.lane) continue;
    EXPECT_LE(a.end, b.begin + kRounding) << a.name << " and " << b.name << " of rank " << a.rank;
  }
}

// Each part's milliseconds, of all ranks and steps.
void ExpectComputeAddsUpToTheBreakdown(const Trace& trace) {
  std::map<std::string, double> of_trace;
  for (const Event& event : trace.events) {
    if (event.lane == 0) of_trace[event.category] += (event.end - event.begin) / 1e3;
  }
  for (int row = 0; row < 5; ++row) {
    const std::string at = absl::StrCat("breakdown.", row, ".");
    const std::string part = Text(trace.report, at + "part");
    EXPECT_NEAR(of_trace[part], Number(trace.report, at + "mean_ms") * kRanks * kSteps, 0.01)
        << part;
    of_trace.erase(part);
  }
  EXPECT_THAT(of_trace, ::testing::IsEmpty());
}

// A thread starts a collective, and sees that it is done, in communication, and not in a layer.
// What the last step gathers behind the next forward ends after it, where nothing is measured any
// more.
void ExpectCollectivesMoveInCommunication(const Trace& trace) {
  const auto moves_at = [&](int64_t rank, double moment) {
    return std::any_of(trace.events.begin(), trace.events.end(), [&](const Event& stay) {
      return stay.rank == rank && stay.category == "exposed communication" &&
             stay.begin <= moment + kRounding && moment <= stay.end + kRounding;
    });
  };
  std::map<int64_t, double> last_moment;  // by rank
  for (const Event& event : trace.events) {
    if (event.lane == 0) last_moment[event.rank] = std::max(last_moment[event.rank], event.end);
  }
  for (const Event& event : trace.events) {
    if (event.lane == 0) continue;
    EXPECT_TRUE(moves_at(event.rank, event.begin)) << "begin of " << event.name;
    const bool ends_after =
        event.category == "gather" && event.step == kSteps && event.end > last_moment[event.rank];
    EXPECT_TRUE(ends_after || moves_at(event.rank, event.end)) << "end of " << event.name;
  }
}

TEST_P(TrainTraceTest, LanesDoNotOverlapAndAddUpToTheBreakdown) {
  const Trace trace = TraceOfStage();
  std::set<std::pair<int64_t, int64_t>> steps;  // by rank
  for (const Event& event : trace.events) {
    steps.emplace(event.rank, event.step);
    EXPECT_EQ(trace.lane_names.count({event.rank, event.lane}), 1u) << event.name;
  }
  EXPECT_EQ(steps.size(), static_cast<size_t>(kRanks * kSteps));
  ExpectLanesDoNotOverlap(trace);
  ExpectComputeAddsUpToTheBreakdown(trace);
  ExpectCollectivesMoveInCommunication(trace);
}

TEST_P(TrainTraceTest, ShowsEachLayerBucketAndUnit) {
  const Trace trace = TraceOfStage();
  std::map<std::string, std::set<std::string>> units;  // by category
  int64_t reduced = 0, gathered = 0, controls = 0;     // bytes, bytes, messages
  for (const Event& event : trace.events) {
    if (!event.unit.empty()) {
      units[event.category].insert(event.unit);
      EXPECT_THAT(event.name, HasSubstr(absl::StrCat(event.category, " ", event.unit)));
    }
    if (event.category == "reduce") reduced += event.bytes;
    if (event.category == "gather") gathered += event.bytes;
    if (event.category == "control") ++controls;
  }
  for (const char* category : {"forward", "backward", "optimizer", "reduce"}) {
    EXPECT_THAT(units[category], ElementsAre("layer1", "layer2", "layer3")) << category;
  }
  constexpr int64_t kModelBytes = 2 * 1248;
  EXPECT_EQ(reduced, kModelBytes * kRanks * kSteps);
  EXPECT_EQ(controls, kRanks * kSteps);
  const std::string stage = GetParam();
  // In stage 3 for forward and for backward, but for the last layer, of 192 elements, and the one
  // before, of 480, which are kept.
  const int64_t gathered_a_step = stage == "ddp" ? 0
                                  : stage == "3" ? 2 * kModelBytes - 2 * (192 + 480)
                                                 : kModelBytes;
  EXPECT_EQ(gathered, gathered_a_step * kRanks * kSteps);
}

// On the common clock no rank sees a collective done before all have begun it.
TEST_P(TrainTraceTest, ClocksOfAllRanksAreOne) {
  const Trace trace = TraceOfStage();
  std::map<std::tuple<std::string, int64_t>, std::pair<double, double>> last_begin_first_end;
  for (const Event& event : trace.events) {
    if (event.category != "reduce" && event.category != "control") continue;
    const auto [place, is_new] = last_begin_first_end.emplace(
        std::make_tuple(event.name, event.step), std::make_pair(event.begin, event.end));
    place->second.first = std::max(place->second.first, event.begin);
    place->second.second = std::min(place->second.second, event.end);
  }
  EXPECT_GT(last_begin_first_end.size(), static_cast<size_t>(kSteps));
  for (const auto& [what, times] : last_begin_first_end) {
    EXPECT_LE(times.first, times.second + kRounding) << std::get<0>(what);
  }
}

Ending Alone(const Arguments& arguments) {
  Arguments command = {ProgramPath("tools/rz_train"), "--dataset=synthetic", "--model=20-24-5"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  Subprocess program(command);
  return EndOf(program);
}

TEST(TrainTraceFileTest, WhatCannotBeWrittenIsSaidBeforeTraining) {
  const Ending ending = Alone({"--steps=2", "--trace=/nowhere/trace.json"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, HasSubstr("/nowhere/trace.json: the trace cannot be written: No such"));
  EXPECT_THAT(ending.out, Not(HasSubstr("step 1 ")));
}

TEST(TrainTraceFileTest, FullDisk_EndsTheRun) {
  const Ending ending = Alone({"--steps=2", "--trace=/dev/full"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, HasSubstr("/dev/full: the trace cannot be written: No space left"));
}

TEST(TrainTraceFileTest, ALongRunKeepsItsLastSteps) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/long.json");
  const Ending ending = Alone({"--steps=6000", "--global-batch=1", "--trace=" + path});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out,
              ContainsRegex("trace: .*: steps [0-9]+ to 6000, [0-9]+ events of 1 rank; earlier "
                            "steps did not fit \\([0-9]+ events were dropped\\)"));
  EXPECT_THAT(ending.out, Not(HasSubstr("steps 1 to")));
}

}  // namespace
}  // namespace rz
