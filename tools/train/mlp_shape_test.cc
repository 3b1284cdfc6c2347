#include "tools/train/mlp_shape.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

TEST(MlpShapeTest, TheDemosModel_Has247766Parameters) {
  ASSERT_OK_AND_ASSIGN(const MlpShape shape, ParseMlpShape("784-256-128-100-10"));
  EXPECT_EQ(shape.ParameterCount(), 247'766);
  EXPECT_EQ(shape.layer_count(), 4u);
  EXPECT_EQ(shape.inputs(), 784);
  EXPECT_EQ(shape.classes(), 10);
  EXPECT_EQ(shape.ToString(), "784-256-128-100-10");
  const std::vector<ModelParameter> parameters = shape.Parameters();
  ASSERT_EQ(parameters.size(), 8u);
  EXPECT_EQ(parameters[2].name, "layer2.weight");
  EXPECT_THAT(parameters[2].shape, ElementsAre(256, 128));
  EXPECT_EQ(parameters[7].name, "layer4.bias");
  EXPECT_THAT(parameters[7].shape, ElementsAre(10));
}

TEST(MlpShapeTest, WhatIsNoModel_NamesThePart) {
  for (const char* text : {"", "784", "784-", "-10", "784-x-10", "784-0-10", "784--10", "1.5-2",
                           "784-65537-10", "99999999999999999999-2"}) {
    EXPECT_THAT(ParseMlpShape(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                              HasSubstr(absl::StrCat("model \"", text, "\""))))
        << text;
  }
  EXPECT_OK(ParseMlpShape("65536-1"));
}

TEST(MlpShapeTest, Limits) {
  std::string text = "1";
  for (int i = 1; i < 64; ++i) absl::StrAppend(&text, "-1");
  EXPECT_OK(ParseMlpShape(text));
  EXPECT_THAT(ParseMlpShape(text + "-1"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found 65")));
  EXPECT_THAT(ParseMlpShape("65536-65536-2"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parameters")));
}

TEST(InitialParameterTest, FillsTheIntervalAndDependsOnItsSeedAlone) {
  ASSERT_OK_AND_ASSIGN(const MlpShape shape, ParseMlpShape("600-50-10"));
  std::vector<float> a(30'000);
  std::vector<float> b(30'000);
  InitialParameter(shape, 0, 1, absl::MakeSpan(a));
  InitialParameter(shape, 0, 1, absl::MakeSpan(b));
  EXPECT_EQ(a, b);
  EXPECT_THAT(a, Each(AllOf(Ge(-0.1f), Le(0.1f))));
  double sum = 0;
  double squares = 0;
  for (const float x : a) {
    sum += x;
    squares += double{x} * x;
  }
  EXPECT_NEAR(sum / 30'000, 0, 0.001);
  EXPECT_NEAR(squares / 30'000, 0.01 / 3, 0.0001);
  InitialParameter(shape, 0, 2, absl::MakeSpan(b));
  EXPECT_NE(a, b);

  std::vector<float> bias(50, 1.0f);
  InitialParameter(shape, 1, 1, absl::MakeSpan(bias));
  EXPECT_THAT(bias, Each(0.0f));
}

}  // namespace
}  // namespace rz
