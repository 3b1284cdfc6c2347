#include "tools/train/text.h"

#include <cmath>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TextTest, Vocabulary_IsTheBytesThereAre) {
  const Text text = ToText(std::string("b\xff\0ab", 5));
  EXPECT_THAT(text.vocabulary, ElementsAre(0, 'a', 'b', 0xff));
  EXPECT_THAT(text.symbols, ElementsAre(2, 3, 0, 1, 2));
}

TEST(TextTest, ConditionalEntropy_OfTextsThatAreKnown) {
  std::string bits;
  for (int i = 0; i < 1000; ++i) bits += "ab";
  EXPECT_NEAR(ConditionalEntropy(ToText(bits), 0), std::log(2), 1e-12);
  EXPECT_NEAR(ConditionalEntropy(ToText(bits), 1), 0, 1e-12);
  // After "a" both come equally often, after "aa" and "ba" only one.
  std::string pairs;
  for (int i = 0; i < 1000; ++i) pairs += "aab";
  EXPECT_NEAR(ConditionalEntropy(ToText(pairs), 1), std::log(2) * 2 / 3, 1e-3);
  EXPECT_NEAR(ConditionalEntropy(ToText(pairs), 2), 0, 1e-12);
  EXPECT_EQ(ConditionalEntropy(ToText(""), 1), 0);
  EXPECT_EQ(ConditionalEntropy(ToText("a"), 1), 0);
}

TEST(TextTest, Windows_LieSideBySideAndLabelsAreWhatComesNext) {
  // 100 bytes: 90 to train on, 10 to validate with.
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes.push_back(static_cast<char>(i));
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, TextDataset("counting", bytes, 4));
  EXPECT_EQ(dataset.name, "counting");
  // Each needs a symbol more than its context.
  EXPECT_EQ(dataset.train->count(), 22);
  EXPECT_EQ(dataset.test->count(), 2);
  EXPECT_EQ(dataset.train->input_size(), 4);
  EXPECT_EQ(dataset.train->label_count(), 4);
  EXPECT_EQ(dataset.train->class_count(), 100);
  std::vector<uint8_t> inputs(8);
  std::vector<uint8_t> labels(8);
  dataset.train->Gather({21, 0}, absl::MakeSpan(inputs), absl::MakeSpan(labels));
  EXPECT_THAT(inputs, ElementsAre(84, 85, 86, 87, 0, 1, 2, 3));
  EXPECT_THAT(labels, ElementsAre(85, 86, 87, 88, 1, 2, 3, 4));
  dataset.test->Gather({0, 1}, absl::MakeSpan(inputs), absl::MakeSpan(labels));
  EXPECT_THAT(inputs, ElementsAre(90, 91, 92, 93, 94, 95, 96, 97));
  EXPECT_THAT(labels, ElementsAre(91, 92, 93, 94, 95, 96, 97, 98));
}

TEST(TextTest, TextWithoutAWholeWindow_SaysHowLongItIs) {
  EXPECT_OK(TextDataset("t", std::string(50, 'x'), 4));
  EXPECT_THAT(TextDataset("t", std::string(40, 'x'), 4),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("t: expected"), HasSubstr("the 4 characters"),
                             HasSubstr("found 40 characters"))));
  EXPECT_THAT(TextDataset("t", "", 1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TextTest, OtherText_MakesAnotherAgreement) {
  ASSERT_OK_AND_ASSIGN(const Dataset a, TextDataset("t", std::string(50, 'x'), 4));
  ASSERT_OK_AND_ASSIGN(const Dataset b, TextDataset("t", std::string(50, 'y'), 4));
  EXPECT_NE(a.agreement, b.agreement);
}

}  // namespace
}  // namespace rz
