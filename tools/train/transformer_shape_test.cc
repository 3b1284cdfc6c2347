#include "tools/train/transformer_shape.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TransformerShapeTest, TextAndParameters) {
  ASSERT_OK_AND_ASSIGN(TransformerShape shape, ParseTransformerShape("gpt-4x2x128x64"));
  EXPECT_EQ(shape.layers, 4);
  EXPECT_EQ(shape.heads, 2);
  EXPECT_EQ(shape.width, 128);
  EXPECT_EQ(shape.context, 64);
  EXPECT_EQ(shape.ToString(), "gpt-4x2x128x64");
  shape.vocabulary = 73;
  const std::vector<ModelParameter> parameters = shape.Parameters();
  ASSERT_EQ(parameters.size(), 2u + 4 * 12 + 3);
  EXPECT_EQ(parameters[0].name, "embedding.token");
  EXPECT_THAT(parameters[0].shape, ElementsAre(73, 128));
  EXPECT_EQ(parameters[4].name, "block1.attention.weight");
  EXPECT_THAT(parameters[4].shape, ElementsAre(128, 384));
  EXPECT_EQ(parameters[4].unit, 1u);
  EXPECT_EQ(parameters.back().name, "head.weight");
  EXPECT_EQ(parameters.back().unit, 5u);
  int64_t count = 0;
  for (const ModelParameter& parameter : parameters) count += parameter.element_count;
  EXPECT_EQ(shape.ParameterCount(), count);
}

TEST(TransformerShapeTest, ATiedHeadIsTheEmbeddingOfSymbolsAndCountsOnce) {
  ASSERT_OK_AND_ASSIGN(TransformerShape shape, ParseTransformerShape("gpt-4x2x128x64-tied"));
  EXPECT_EQ(shape.ToString(), "gpt-4x2x128x64-tied");
  ASSERT_OK_AND_ASSIGN(TransformerShape apart, ParseTransformerShape("gpt-4x2x128x64"));
  shape.vocabulary = apart.vocabulary = 73;
  EXPECT_EQ(apart.ParameterCount() - shape.ParameterCount(), 73 * 128);
  const std::vector<ModelParameter> parameters = shape.Parameters();
  EXPECT_EQ(parameters.size(), apart.Parameters().size());
  EXPECT_EQ(parameters.back().name, "head.weight");
  EXPECT_EQ(parameters.back().tied_to, "embedding.token");
  EXPECT_EQ(parameters.back().shape, parameters.front().shape);
  std::vector<float> embedding(73 * 128), head(73 * 128);
  InitialParameter(shape, 0, 1, absl::MakeSpan(embedding));
  InitialParameter(shape, parameters.size() - 1, 1, absl::MakeSpan(head));
  EXPECT_EQ(embedding, head);
}

TEST(TransformerShapeTest, WhatIsNoModel_SaysWhatIsExpected) {
  for (const char* text :
       {"gpt-", "gpt-4", "gpt-4x2x128", "gpt-4x2x128x64x1", "gpt-4x2x128x0", "gpt-axbxcxd",
        "gpt-4x3x128x64", "gpt-257x1x1x1", "gpt-1x1x16385x1", "gpt-1x1x1x4097", "gpt-256x1x16384x1",
        "784-10", "gpt-4x-2x128x64", "gpt-4x2x128x64-untied", "gpt-tied"}) {
    EXPECT_THAT(ParseTransformerShape(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(absl::StrCat("model \"", text, "\"")),
                               HasSubstr("gpt-LAYERSxHEADSxWIDTHxCONTEXT"))))
        << text;
  }
  EXPECT_OK(ParseTransformerShape("gpt-256x1x1x4096"));
  EXPECT_OK(ParseTransformerShape("gpt-1x1x8192x1"));
}

TEST(TransformerInitialParameterTest, DependsOnItsSeedAloneAndHasItsDeviation) {
  TransformerShape shape = {2, 2, 64, 32, 73};
  const std::vector<ModelParameter> parameters = shape.Parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::vector<float> a(static_cast<size_t>(parameters[i].element_count), NAN);
    InitialParameter(shape, i, 1, absl::MakeSpan(a));
    const std::string& name = parameters[i].name;
    if (absl::EndsWith(name, ".gain")) {
      EXPECT_THAT(a, Each(1.0f)) << name;
      continue;
    }
    if (absl::EndsWith(name, ".bias")) {
      EXPECT_THAT(a, Each(0.0f)) << name;
      continue;
    }
    std::vector<float> b = a;
    InitialParameter(shape, i, 1, absl::MakeSpan(b));
    EXPECT_EQ(a, b);
    InitialParameter(shape, i, 2, absl::MakeSpan(b));
    EXPECT_NE(a, b);
    double squares = 0;
    for (const float x : a) squares += double{x} * x;
    double expected = 0.02;
    if (absl::EndsWith(name, ".weight")) {
      expected = std::sqrt(1.0 / (3.0 * static_cast<double>(parameters[i].shape[0])));
    }
    if (absl::StrContains(name, "projection") || absl::StrContains(name, "contraction")) {
      expected /= 2;
    }
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(a.size())) / expected, 1, 0.05) << name;
  }
}

}  // namespace
}  // namespace rz
