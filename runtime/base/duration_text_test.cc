#include "runtime/base/duration_text.h"

#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(DurationTextTest, ReadsUnitsAndBareSeconds) {
  EXPECT_EQ(ParseDuration("90"), absl::Seconds(90));
  EXPECT_EQ(ParseDuration("0.25"), absl::Milliseconds(250));
  EXPECT_EQ(ParseDuration("300ms"), absl::Milliseconds(300));
  EXPECT_EQ(ParseDuration("1h5m"), absl::Minutes(65));
  EXPECT_EQ(ParseDuration("-1"), absl::Seconds(-1));
  EXPECT_EQ(ParseDuration("0"), absl::ZeroDuration());
}

TEST(DurationTextTest, WhatIsNoTimeIsNothing) {
  for (const char* wrong : {"", "x", "5 m", "5x", "nan", "inf", "-inf", "1e300", "5m x"}) {
    EXPECT_EQ(ParseDuration(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace rz
