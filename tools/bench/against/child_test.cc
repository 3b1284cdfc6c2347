#include "tools/bench/against/child.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr absl::Duration kLong = absl::Minutes(10);

std::vector<std::string> Shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

TEST(ChildTest, OutputAndEnvironmentPass) {
  const auto output = RunChild(Shell("echo $WHO; cat; echo noise >&2"), {{"WHO", "me"}}, kLong);
  ASSERT_OK(output.status());
  EXPECT_EQ(*output, "me\n");
}

TEST(ChildTest, LongOutputIsComplete) {
  const auto output = RunChild(Shell("head -c 3000000 /dev/zero"), {}, kLong);
  ASSERT_OK(output.status());
  EXPECT_THAT(*output, SizeIs(3000000));
}

TEST(ChildTest, AFailureHasTheLastErrorLine) {
  EXPECT_THAT(RunChild(Shell("echo one >&2; echo two >&2; exit 3"), {}, kLong),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("exit status 3 (two)")));
  EXPECT_THAT(RunChild({"/no/such/program"}, {}, kLong),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/no/such/program")));
}

TEST(ChildTest, WhoTakesTooLongIsEnded) {
  EXPECT_THAT(RunChild({"sleep", "1000"}, {}, absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("sleep")));
}

TEST(ChildTest, WhatItLeavesBehindIsNotWaitedFor) {
  const auto output = RunChild(Shell("sleep 3 & echo done"), {}, kLong);
  ASSERT_OK(output.status());
  EXPECT_EQ(*output, "done\n");
}

}  // namespace
}  // namespace rz
