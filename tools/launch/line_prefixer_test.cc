#include "tools/launch/line_prefixer.h"

#include <random>

#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(LinePrefixerTest, PrefixesWholeLinesOnly) {
  LinePrefixer prefixer("[1] ", false);
  EXPECT_EQ(prefixer.Feed("one\ntw"), "[1] one\n");
  EXPECT_EQ(prefixer.Feed("o"), "");
  EXPECT_EQ(prefixer.Feed("\n\nthree"), "[1] two\n[1] \n");
  EXPECT_EQ(prefixer.Finish(), "[1] three\n");
  EXPECT_EQ(prefixer.Finish(), "");
}

TEST(LinePrefixerTest, KeepsBytesThatAreNoText) {
  LinePrefixer prefixer("[0] ", true);
  EXPECT_EQ(prefixer.Feed(std::string_view("\0\xff\x1b[31m\n", 8)),
            std::string("[0] \0\xff\x1b[31m\n", 12));
}

TEST(LinePrefixerTest, OnlyTheLastStateOfABarGoesOutWithoutUpdates) {
  LinePrefixer prefixer("[1] ", false);
  EXPECT_EQ(prefixer.Feed("\r10%"), "");
  EXPECT_EQ(prefixer.Feed("\r20%\r30%"), "");
  EXPECT_EQ(prefixer.Feed("\n"), "[1] 30%\n");
}

TEST(LinePrefixerTest, UpdatesOfABarGoOutAsTheyCome) {
  LinePrefixer leading("[0] ", true);
  EXPECT_EQ(leading.Feed("\r10%"), "[0] 10%\r");
  EXPECT_EQ(leading.Feed("\r20%\r30%"), "[0] 30%\r");
  EXPECT_EQ(leading.Feed(" more"), "[0] 30% more\r");
  EXPECT_EQ(leading.Feed("\ndone\n"), "[0] 30% more\n[0] done\n");

  LinePrefixer trailing("[0] ", true);
  EXPECT_EQ(trailing.Feed("10%\r"), "[0] 10%\r");
  EXPECT_EQ(trailing.Feed("20%\r"), "[0] 20%\r");
  EXPECT_EQ(trailing.Feed("\n"), "[0] 20%\n");
}

TEST(LinePrefixerTest, ANewlineAfterACarriageReturnIsOneLineEnd) {
  LinePrefixer prefixer("[0] ", true);
  EXPECT_EQ(prefixer.Feed("a\r\nb\r\n"), "[0] a\n[0] b\n");
}

TEST(LinePrefixerTest, ALineWithoutEndIsCutAtTheLimit) {
  LinePrefixer prefixer("", false);
  EXPECT_EQ(prefixer.Feed(std::string(kMaxPrefixedLine - 1, 'x')), "");
  EXPECT_EQ(prefixer.Feed("xy"), std::string(kMaxPrefixedLine, 'x') + "\n");
  EXPECT_EQ(prefixer.Finish(), "y\n");
}

TEST(LinePrefixerTest, HowTheBytesAreCutDoesNotMatter) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 300; ++i) text.push_back("ab\n\r"[random() % (round % 2 == 0 ? 3 : 4)]);
    LinePrefixer whole("[2] ", false), cut("[2] ", false);
    std::string pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 7;
      pieces += cut.Feed(std::string_view(text).substr(at, size));
      at += size;
    }
    pieces += cut.Finish();
    std::string at_once = whole.Feed(text);
    at_once += whole.Finish();
    EXPECT_EQ(at_once, pieces);
  }
}

}  // namespace
}  // namespace rz
