#include "tools/train/text_source.h"

#include <fstream>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tools/train/text.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OutputOfTest, IsWhatTheCommandWrites) {
  ASSERT_OK_AND_ASSIGN(const std::string text, OutputOf({"printf", "a\\nb"}));
  EXPECT_EQ(text, "a\nb");
  // More than a pipe holds.
  ASSERT_OK_AND_ASSIGN(const std::string long_text, OutputOf({"head", "-c3000000", "/dev/zero"}));
  EXPECT_EQ(long_text, std::string(3'000'000, '\0'));
  ASSERT_OK_AND_ASSIGN(const std::string nothing, OutputOf({"cat"}));
  EXPECT_EQ(nothing, "");
}

TEST(OutputOfTest, FailureOfTheCommand_IsTold) {
  EXPECT_THAT(OutputOf({"no-such-command"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no-such-command")));
  EXPECT_THAT(OutputOf({"sh", "-c", "echo text; exit 3"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("exit status 3")));
  EXPECT_THAT(OutputOf({"sh", "-c", "kill -9 $$"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("137")));
}

TEST(ReadTextFileTest, ReadsBytesAndNamesWhatItCannotRead) {
  const std::string path = ::testing::TempDir() + "/some.txt";
  std::ofstream(path) << "some\ntext";
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadTextFile(path));
  EXPECT_EQ(text, "some\ntext");
  EXPECT_THAT(ReadTextFile("/nowhere.txt"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere.txt: No such file")));
  EXPECT_THAT(ReadTextFile(::testing::TempDir()),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("Is a directory")));
}

TEST(ReadBibleTest, HasTheTextOfItsPackageWhateverTheEnvironmentSays) {
  setenv("COLUMNS", "33", 1);
  const absl::StatusOr<std::string> text = ReadBible();
  if (absl::IsNotFound(text.status())) {
    EXPECT_THAT(text.status().message(),
                AllOf(HasSubstr("apt-get install bible-kjv"), HasSubstr("--data-dir")));
    GTEST_SKIP() << "apt-get install bible-kjv";
  }
  ASSERT_OK(text);
  EXPECT_EQ(text->size(), 4'298'239u);
  const Text symbols = ToText(*text);
  EXPECT_EQ(symbols.vocabulary.size(), 73u);
  EXPECT_NEAR(ConditionalEntropy(symbols, 0), 3.0740, 1e-4);
  EXPECT_NEAR(ConditionalEntropy(symbols, 1), 2.3431, 1e-4);
  EXPECT_NEAR(ConditionalEntropy(symbols, 2), 1.7399, 1e-4);
}

TEST(SyntheticTextTest, DependsOnItsSeedAloneAndIsHarderByBigrams) {
  const std::string text = SyntheticText(1, 100'000);
  EXPECT_EQ(text.size(), 100'000u);
  EXPECT_EQ(SyntheticText(1, 100'000), text);
  EXPECT_NE(SyntheticText(2, 100'000), text);
  const Text symbols = ToText(text);
  EXPECT_GT(ConditionalEntropy(symbols, 1), ConditionalEntropy(symbols, 2) + 0.5);
}

}  // namespace
}  // namespace rz
