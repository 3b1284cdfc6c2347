#include "optimizer/group_rules.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MatchesGlobTest, StarsAndQuestionMarks) {
  for (const auto& [pattern, text] :
       std::vector<std::pair<std::string, std::string>>{{"*.bias", "layer1.bias"},
                                                        {"*.bias", ".bias"},
                                                        {"*", ""},
                                                        {"", ""},
                                                        {"a*b*c", "aXbYbc"},
                                                        {"layer?.*", "layer7.w"},
                                                        {"**x", "x"},
                                                        {"a.b", "a.b"},
                                                        {"*a*a*a", "aaa"},
                                                        {"l*.weight", "l1.x.weight"}}) {
    EXPECT_TRUE(MatchesGlob(pattern, text)) << pattern << " " << text;
  }
  for (const auto& [pattern, text] :
       std::vector<std::pair<std::string, std::string>>{{"*.bias", "layer1.biases"},
                                                        {"*.bias", "bias"},
                                                        {"", "a"},
                                                        {"?", ""},
                                                        {"layer?.w", "layer10.w"},
                                                        {"a*b", "ab "},
                                                        {"A", "a"},
                                                        {"*a*a*a", "aa"},
                                                        {"[ab]", "a"}}) {
    EXPECT_FALSE(MatchesGlob(pattern, text)) << pattern << " " << text;
  }
}

std::vector<ParamSpec> Specs() {
  return {{"1.weight", {4}, 0},
          {"1.bias", {2}, 0},
          {"2.weight", {4}, 1},
          {"2.bias", {2}, 1},
          {"head", {4}, 1, 0, false, "1.weight"}};
}

TEST(AssignGroupsTest, TheFirstRuleThatMatchesWinsAndTiesFollow) {
  std::vector<ParamSpec> specs = Specs();
  // The third group is left empty by the two before it.
  ASSERT_OK(AssignGroups({{"2.*", 1, false}, {"1.*", 2, true}, {"*.bias", 3, false}}, &specs));
  EXPECT_EQ(specs[0].group, 2u);
  EXPECT_TRUE(specs[0].frozen);
  EXPECT_EQ(specs[1].group, 2u);
  EXPECT_EQ(specs[3].group, 1u);
  EXPECT_FALSE(specs[3].frozen);
  EXPECT_EQ(specs[4].group, 2u);
  EXPECT_TRUE(specs[4].frozen);
  EXPECT_OK(FlatLayout::Create(specs).status());
}

TEST(AssignGroupsTest, WhatNoRuleMatchesStaysAsItIs) {
  std::vector<ParamSpec> specs = Specs();
  specs[2].frozen = true;
  ASSERT_OK(AssignGroups({{"*.bias", 1, false}}, &specs));
  EXPECT_EQ(specs[0].group, 0u);
  EXPECT_EQ(specs[1].group, 1u);
  EXPECT_TRUE(specs[2].frozen);
}

TEST(AssignGroupsTest, ARuleForNoneButTiedParametersIsAnErrorWithTheirOwner) {
  std::vector<ParamSpec> specs = Specs();
  EXPECT_THAT(AssignGroups({{"head", 1, false}}, &specs),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'head'"), HasSubstr("tied to '1.weight'"))));
  EXPECT_OK(AssignGroups({{"*e*", 1, false}}, &specs));
}

TEST(AssignGroupsTest, ARuleThatMatchesNothingIsAnErrorWithTheNames) {
  std::vector<ParamSpec> specs = Specs();
  EXPECT_THAT(AssignGroups({{"*.bias", 1, false}, {"*.gain", 2, false}}, &specs),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'*.gain'"), HasSubstr("1.weight, 1.bias, 2.weight"))));
  specs.clear();
  for (int i = 0; i < 30; ++i) specs.push_back({"p" + std::to_string(i), {1}});
  EXPECT_THAT(AssignGroups({{"x", 1, false}}, &specs),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("p19 and 10 more"), Not(HasSubstr("p20")))));
}

}  // namespace
}  // namespace rz
