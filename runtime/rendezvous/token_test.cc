#include "runtime/rendezvous/token.h"

#include <sys/stat.h>

#include <fstream>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/rendezvous/limits.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::string Write(const std::string& contents, mode_t mode = 0600) {
  const std::string path = ::testing::TempDir() + "/token";
  std::ofstream(path, std::ios::trunc) << contents;
  EXPECT_EQ(chmod(path.c_str(), mode), 0);
  return path;
}

TEST(TokenTest, SizesAtTheLimitsAndOnePastThem) {
  const std::string shortest(limits::kMinTokenBytes, 't');
  const std::string longest(limits::kMaxTokenBytes, 't');
  EXPECT_EQ(*ReadTokenFile(Write(shortest + "\n")), shortest);
  EXPECT_EQ(*ReadTokenFile(Write(longest)), longest);
  EXPECT_THAT(ReadTokenFile(Write(shortest.substr(1) + "\n\n\n")),
              StatusIs(Code::kInvalidArgument, HasSubstr("at least 16")));
  EXPECT_THAT(ReadTokenFile(Write(longest + "t")), StatusIs(Code::kInvalidArgument));
}

TEST(TokenTest, NoFileIsNoToken) {
  EXPECT_EQ(*ReadTokenFile(""), "");
  EXPECT_THAT(ReadTokenFile("/nowhere/token"),
              StatusIs(Code::kNotFound, HasSubstr("/nowhere/token")));
}

TEST(TokenTest, WhatOthersMayReadOrMetadataCannotCarryIsRefused) {
  const std::string token = "0123456789abcdef-secret";
  for (mode_t mode : {0640, 0604, 0620, 0610}) {
    const auto read = ReadTokenFile(Write(token, mode));
    EXPECT_THAT(read, StatusIs(Code::kPermissionDenied, ::testing::Not(HasSubstr("secret"))));
  }
  EXPECT_OK(ReadTokenFile(Write(token, 0400)));
  EXPECT_THAT(ReadTokenFile(Write("two words of a token")), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(ReadTokenFile(Write("\xc3\xa4 0123456789abcdef")), StatusIs(Code::kInvalidArgument));
}

TEST(TokenTest, EqualOnlyWhereEveryByteIs) {
  EXPECT_TRUE(TokensEqual("abcd", "abcd"));
  for (const char* other : {"abce", "bbcd", "abc", "abcdabcd", ""}) {
    EXPECT_FALSE(TokensEqual("abcd", other)) << other;
  }
}

}  // namespace
}  // namespace rz
