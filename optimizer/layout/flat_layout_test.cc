#include "optimizer/layout/flat_layout.h"

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "optimizer/layout/limits.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(FlatLayoutTest, LastDeclaredComesFirstAndAllAreAligned) {
  ASSERT_OK_AND_ASSIGN(const FlatLayout layout,
                       FlatLayout::Create({{"w", {7, 10}}, {"b", {3}}, {"v", {40}}}));
  EXPECT_EQ(layout.range(2), (Range{0, 40}));
  EXPECT_EQ(layout.range(1), (Range{64, 3}));
  EXPECT_EQ(layout.range(0), (Range{96, 70}));
  EXPECT_EQ(layout.parameter_elements(), 113);
  EXPECT_EQ(layout.flat_elements(), 192);
  EXPECT_EQ(layout.largest_parameter(), 70);
}

TEST(FlatLayoutTest, UnitsAreRunsOfTheirOwn) {
  ASSERT_OK_AND_ASSIGN(
      const FlatLayout layout,
      FlatLayout::Create(
          {{"a", {7}, 0}, {"b", {40}, 1}, {"c", {0}, 1}, {"d", {0}, 2}, {"e", {1}, 3}}, 96));
  EXPECT_EQ(layout.range(4), (Range{0, 1}));
  EXPECT_EQ(layout.range(1), (Range{96, 40}));
  EXPECT_EQ(layout.range(0), (Range{192, 7}));
  EXPECT_EQ(layout.flat_elements(), 288);
  ASSERT_EQ(layout.unit_count(), 4u);
  EXPECT_EQ(layout.unit(0).flat, (Range{192, 96}));
  EXPECT_EQ(layout.unit(1).flat, (Range{96, 96}));
  EXPECT_EQ(layout.unit(1).first, 1u);
  EXPECT_EQ(layout.unit(1).count, 2u);
  EXPECT_EQ(layout.unit(2).flat.count, 0);
  EXPECT_THAT(layout.segments(), ::testing::ElementsAre(96, 0, 96, 96));
  EXPECT_THAT(layout.Find(192), Optional(size_t{0}));
  EXPECT_EQ(layout.Find(95), std::nullopt);
}

TEST(FlatLayoutTest, UnitsAreNamedByWhatTheirParametersShare) {
  ASSERT_OK_AND_ASSIGN(const FlatLayout layout, FlatLayout::Create({{"layer1.weight", {2}, 0},
                                                                    {"layer1.bias", {2}, 0},
                                                                    {"alone", {2}, 1},
                                                                    {"layer2.weight", {2}, 2},
                                                                    {"layer20.weight", {2}, 2},
                                                                    {"h.3.mlp.in", {2}, 3},
                                                                    {"h.3.mlp.out", {2}, 3},
                                                                    {"h.3.norm", {2}, 3}}));
  EXPECT_EQ(layout.unit_name(0), "layer1");
  EXPECT_EQ(layout.unit_name(1), "alone");
  EXPECT_EQ(layout.unit_name(2), "unit 2");
  EXPECT_EQ(layout.unit_name(3), "h.3");
}

TEST(FlatLayoutTest, WhatIsFrozenStandsBehindAllThatIsTrained) {
  ASSERT_OK_AND_ASSIGN(const FlatLayout layout, FlatLayout::Create({{"a", {7}, 0, 0, true},
                                                                    {"b", {40}, 0},
                                                                    {"c", {3}, 1, 0, true},
                                                                    {"d", {5}, 2},
                                                                    {"e", {70}, 2, 0, true}},
                                                                   64));
  EXPECT_THAT(layout.segments(), ::testing::ElementsAre(64, 0, 64));
  EXPECT_THAT(layout.frozen_segments(), ::testing::ElementsAre(128, 64, 64));
  EXPECT_EQ(layout.range(3), (Range{0, 5}));
  EXPECT_EQ(layout.range(1), (Range{64, 40}));
  EXPECT_EQ(layout.range(4), (Range{128, 70}));
  EXPECT_EQ(layout.range(2), (Range{256, 3}));
  EXPECT_EQ(layout.range(0), (Range{320, 7}));
  EXPECT_EQ(layout.parameter_elements(), 45);
  EXPECT_EQ(layout.frozen_elements(), 80);
  EXPECT_EQ(layout.largest_parameter(), 70);
  EXPECT_EQ(layout.unit(0).flat, (Range{64, 64}));
  EXPECT_EQ(layout.unit(0).frozen, (Range{320, 64}));
  EXPECT_EQ(layout.unit(2).elements(), 192);
  EXPECT_THAT(layout.Find(68), Optional(size_t{1}));
  EXPECT_THAT(layout.Find(197), Optional(size_t{4}));
  EXPECT_EQ(layout.Find(198), std::nullopt);
  EXPECT_THAT(layout.Find(326), Optional(size_t{0}));
}

TEST(FlatLayoutTest, WhatIsTiedHasThePlaceOfTheFirst) {
  ASSERT_OK_AND_ASSIGN(const FlatLayout layout,
                       FlatLayout::Create({{"a", {7}, 0},
                                           {"b", {40}, 1},
                                           {"a2", {7}, 1, 0, false, "a"},
                                           {"a3", {7}, 2, 0, false, "a2"}}));
  EXPECT_EQ(layout.range(2), layout.range(0));
  EXPECT_EQ(layout.range(3), layout.range(0));
  EXPECT_EQ(layout.owner(3), 0u);
  EXPECT_TRUE(layout.IsTied(2));
  EXPECT_FALSE(layout.IsTied(0));
  EXPECT_EQ(layout.uses(0), 3);
  EXPECT_EQ(layout.uses(1), 1);
  EXPECT_EQ(layout.storage_unit(3), 0u);
  EXPECT_EQ(layout.parameter_elements(), 47);
  EXPECT_THAT(layout.segments(), ::testing::ElementsAre(0, 64, 32));
  EXPECT_THAT(layout.Find(64), Optional(size_t{0}));
}

TEST(FlatLayoutTest, TiesThatCannotBeAreRefused) {
  const auto create = [](ParamSpec second) {
    return FlatLayout::Create({{"a", {7}, 0, 1}, std::move(second)}).status();
  };
  EXPECT_OK(create({"b", {7}, 0, 1, false, "a"}));
  EXPECT_THAT(create({"b", {7}, 0, 1, false, "b"}),
              StatusIs(kInvalid, HasSubstr("'b' is tied to 'b'; there is no")));
  EXPECT_THAT(create({"b", {7}, 0, 1, false, "c"}), StatusIs(kInvalid, HasSubstr("tied to 'c'")));
  EXPECT_THAT(create({"b", {1, 7}, 0, 1, false, "a"}),
              StatusIs(kInvalid, AllOf(HasSubstr("shape [1, 7]"), HasSubstr("shape [7]"))));
  EXPECT_THAT(create({"b", {7}, 0, 0, false, "a"}),
              StatusIs(kInvalid, AllOf(HasSubstr("group 0"), HasSubstr("group 1"))));
  EXPECT_THAT(create({"b", {7}, 0, 1, true, "a"}),
              StatusIs(kInvalid, AllOf(HasSubstr("frozen"), HasSubstr("trained"))));
}

TEST(FlatLayoutTest, UnitsOutOfOrderAreRefused) {
  EXPECT_THAT(FlatLayout::Create({{"a", {7}, 1}}), StatusIs(kInvalid, HasSubstr("'a'")));
  EXPECT_THAT(FlatLayout::Create({{"a", {7}, 0}, {"b", {7}, 2}}),
              StatusIs(kInvalid, HasSubstr("'b' is of unit 2 behind unit 0")));
  EXPECT_THAT(FlatLayout::Create({{"a", {7}, 0}, {"b", {7}, 1}, {"c", {7}, 0}}),
              StatusIs(kInvalid, HasSubstr("'c'")));
  EXPECT_THAT(FlatLayout::Create({{"a", {7}, -1}}), StatusIs(kInvalid));
}

TEST(FlatLayoutTest, NoParametersScalarsAndEmptyOnesAreAllowed) {
  ASSERT_OK_AND_ASSIGN(const FlatLayout none, FlatLayout::Create({}));
  EXPECT_EQ(none.flat_elements(), 0);
  EXPECT_EQ(none.Find(0), std::nullopt);

  ASSERT_OK_AND_ASSIGN(const FlatLayout layout,
                       FlatLayout::Create({{"scalar", {}}, {"empty", {5, 0}}, {"one", {1}}}));
  EXPECT_EQ(layout.range(0).count, 1);
  EXPECT_EQ(layout.range(1).count, 0);
  EXPECT_EQ(layout.parameter_elements(), 2);
  EXPECT_THAT(layout.Find(0), Optional(size_t{2}));
  EXPECT_THAT(layout.Find(32), Optional(size_t{0}));
}

TEST(FlatLayoutTest, EveryElementIsFoundInItsParameterAndPaddingInNone) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<ParamSpec> specs;
    const int64_t sizes[] = {0, 1, 3, 4, 5, 31, 32, 33, 7919};
    for (unsigned i = 0, count = random() % 9; i < count; ++i) {
      specs.push_back({"p" + std::to_string(i), {sizes[random() % std::size(sizes)]}});
    }
    ASSERT_OK_AND_ASSIGN(const FlatLayout layout, FlatLayout::Create(specs));
    std::vector<std::optional<size_t>> expected(static_cast<size_t>(layout.flat_elements()));
    for (size_t i = 0; i < layout.size(); ++i) {
      EXPECT_EQ(layout.range(i).count, layout.spec(i).shape[0]);
      EXPECT_EQ(layout.range(i).offset % kAlignmentElements, 0);
      for (int64_t at = layout.range(i).offset; at < layout.range(i).end(); ++at) {
        ASSERT_EQ(expected[static_cast<size_t>(at)], std::nullopt) << "two parameters overlap";
        expected[static_cast<size_t>(at)] = i;
      }
    }
    for (size_t at = 0; at < expected.size(); ++at) {
      ASSERT_EQ(layout.Find(static_cast<int64_t>(at)), expected[at]) << at;
    }
  }
}

TEST(FlatLayoutTest, ErrorsNameTheParameter) {
  EXPECT_THAT(FlatLayout::Create({{"w", {2}}, {"w", {3}}}),
              StatusIs(kInvalid, AllOf(HasSubstr("'w'"), HasSubstr("unique"))));
  EXPECT_THAT(FlatLayout::Create({{"", {2}}}), StatusIs(kInvalid, HasSubstr("parameter 0")));
  EXPECT_THAT(FlatLayout::Create({{"w", {2, -1}}}),
              StatusIs(kInvalid, AllOf(HasSubstr("'w'"), HasSubstr("[2, -1]"))));
}

TEST(FlatLayoutTest, LimitsHoldAtTheLimitAndNotPastIt) {
  const std::string longest(kMaxParameterNameBytes, 'n');
  EXPECT_OK(FlatLayout::Create({{longest, {2}}}).status());
  EXPECT_THAT(FlatLayout::Create({{longest + "n", {2}}}), StatusIs(kInvalid));

  EXPECT_OK(FlatLayout::Create({{"w", {kMaxFlatElements}}}).status());
  EXPECT_THAT(FlatLayout::Create({{"w", {kMaxFlatElements + 1}}}),
              StatusIs(kInvalid, HasSubstr("'w'")));
  EXPECT_THAT(FlatLayout::Create({{"w", {kMaxFlatElements}}, {"v", {1}}}),
              StatusIs(kInvalid, HasSubstr("'w'")));
  EXPECT_THAT(FlatLayout::Create({{"w", {int64_t{1} << 40, int64_t{1} << 40}}}),
              StatusIs(kInvalid, HasSubstr("'w'")));
  EXPECT_OK(FlatLayout::Create({{"w", {int64_t{1} << 40, int64_t{1} << 40, 0}}}).status());

  std::vector<ParamSpec> specs(kMaxParameters);
  for (size_t i = 0; i < specs.size(); ++i) specs[i].name = std::to_string(i);
  EXPECT_OK(FlatLayout::Create(specs).status());
  specs.push_back({"one more", {}});
  EXPECT_THAT(FlatLayout::Create(std::move(specs)), StatusIs(kInvalid, HasSubstr("1048577")));
}

}  // namespace
}  // namespace rz
