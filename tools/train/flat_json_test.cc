#include "tools/train/flat_json.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(FlatJsonTest, ReadsScalarsByPath) {
  ASSERT_OK_AND_ASSIGN(
      const FlatJson values,
      ParseFlatJson(R"( {"a": {"b": 1, "e": {}}, "c": ["x", true, []], "d":-1.5e3,"n" : null} )"));
  EXPECT_THAT(values, UnorderedElementsAre(Pair("a.b", "1"), Pair("c.0", "x"), Pair("c.1", "true"),
                                           Pair("d", "-1.5e3"), Pair("n", "null")));
  ASSERT_OK_AND_ASSIGN(const FlatJson empty, ParseFlatJson("{}"));
  EXPECT_THAT(empty, IsEmpty());
}

TEST(FlatJsonTest, StringsSurviveWritingAndReading) {
  const std::string text = "a\"b\\c\n\t\x01/é";
  ASSERT_OK_AND_ASSIGN(const FlatJson values,
                       ParseFlatJson(absl::StrCat("{\"k\":", JsonString(text), "}")));
  EXPECT_EQ(values.at("k"), text);
}

TEST(FlatJsonTest, WhatIsNoJson_SaysWhere) {
  for (const char* text :
       {"", "{", "}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "[1 2]", "[1,]", "{} x", "\"",
        "\"\\", "\"\\u00\"", "\"\\uffff\"", "\"\\x\"", "nul", "{\"a\":1 \"b\":2}", "\"\n\""}) {
    EXPECT_THAT(ParseFlatJson(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at byte ")))
        << text;
  }
}

TEST(FlatJsonTest, NameTwice_IsAnError) {
  EXPECT_THAT(ParseFlatJson("{\"a\":1,\"a\":2}"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(FlatJsonTest, NestingLimit) {
  EXPECT_OK(ParseFlatJson(absl::StrCat(std::string(16, '['), "1", std::string(16, ']'))));
  EXPECT_THAT(ParseFlatJson(std::string(100'000, '[')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("less nesting")));
}

TEST(FlatJsonFuzzTest, DamagedText_NeverCrashes) {
  const std::string valid = R"({"a": {"b": [1, "x\u0041", null]}, "c": -1e5})";
  for (uint64_t round = 0; round < 20'000; ++round) {
    const RandomStream random(round, 0);
    std::string text = valid.substr(0, random.Below(0, valid.size() + 1));
    for (uint64_t i = 0; i < 3 && !text.empty(); ++i) {
      text[random.Below(2 * i + 1, text.size())] = static_cast<char>(random.Below(2 * i + 2, 256));
    }
    (void)ParseFlatJson(text);
  }
}

}  // namespace
}  // namespace rz
