#include "tools/train/trace_file.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tools/bench/json.h"

namespace rz {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

const std::vector<std::string> kUnits = {"layer1", "a \"quoted\" one"};

TEST(TraceFileTest, WhatTheThreadDidIsInLaneZero) {
  ASSERT_OK_AND_ASSIGN(const JsonScalars event,
                       ReadJson(TraceEventJson(2,
                                               {.begin_ns = 1'234'500,
                                                .end_ns = 2'000'000,
                                                .step = 9,
                                                .place = {.unit = 1},
                                                .kind = TraceKind::kBackward},
                                               kUnits)));
  EXPECT_THAT(event,
              IsSupersetOf({Pair("ph", "X"), Pair("pid", "2"), Pair("tid", "0"),
                            Pair("ts", "1234.5"), Pair("dur", "765.5"), Pair("cat", "backward"),
                            Pair("args.step", "9"), Pair("args.unit", "a \"quoted\" one"),
                            Pair("name", "backward a \"quoted\" one")}));
  EXPECT_THAT(event, Not(Contains(Key("args.bytes"))));
  EXPECT_THAT(event, Not(Contains(Key("args.bucket"))));
}

TEST(TraceFileTest, CollectivesHaveLanesOfTheirKindWithBytes) {
  ASSERT_OK_AND_ASSIGN(const JsonScalars event,
                       ReadJson(TraceEventJson(0,
                                               {.bytes = 64,
                                                .step = 1,
                                                .place = {.unit = 0, .bucket = 3},
                                                .kind = TraceKind::kGather,
                                                .lane = 1},
                                               kUnits)));
  EXPECT_THAT(event, IsSupersetOf({Pair("tid", "20001"), Pair("cat", "gather"),
                                   Pair("name", "gather layer1 bucket 3"), Pair("args.bucket", "3"),
                                   Pair("args.bytes", "64")}));
}

TEST(TraceFileTest, EveryLaneHasAName) {
  ASSERT_OK_AND_ASSIGN(const JsonScalars names,
                       ReadJson(absl::StrCat("{\"all\":[", TraceLanesJson(5, {2, 0, 1}), "]}")));
  EXPECT_THAT(names,
              IsSupersetOf({Pair("all.0.args.name", "rank 5"), Pair("all.2.args.name", "compute"),
                            Pair("all.4.args.name", "reduce"), Pair("all.4.tid", "10000"),
                            Pair("all.6.args.name", "reduce 2"), Pair("all.6.tid", "10001"),
                            Pair("all.8.args.name", "control"), Pair("all.8.tid", "30000")}));
  EXPECT_THAT(names, Not(Contains(Key("all.10.tid"))));
}

}  // namespace
}  // namespace rz
