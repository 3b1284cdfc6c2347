#include "tools/bench/json.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::Pair;

TEST(JsonTest, ScalarsAreFoundByTheirPaths) {
  const auto scalars = ReadJson(R"({"a": {"b": 1.5}, "c": ["x", true, null, 9007199254740992]})");
  ASSERT_OK(scalars.status());
  EXPECT_THAT(*scalars, ElementsAre(Pair("a.b", "1.5"), Pair("c.0", "x"), Pair("c.1", "true"),
                                    Pair("c.2", "null"), Pair("c.3", "9007199254740992")));
}

TEST(JsonTest, WhatIsNoObjectIsRefused) {
  for (const char* text : {"", "[1]", "{\"a\": }", "{\"a\": 1", "hello"}) {
    EXPECT_THAT(ReadJson(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(JsonTest, QuotedTextIsReadBack) {
  for (const std::string text : {"", "plain", "a\"b\\c\n\t\x01", "\xc3\xa4 </script>"}) {
    const auto scalars = ReadJson("{\"k\": " + QuoteJson(text) + "}");
    ASSERT_OK(scalars.status());
    EXPECT_EQ(scalars->at("k"), text);
  }
  EXPECT_EQ(QuoteJson("\xff"), "\"\"");
}

}  // namespace
}  // namespace rz
