#include "tools/plan/amount.h"

#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(AmountTest, NumbersHaveTheDigitsThatSaySomething) {
  EXPECT_EQ(Digits(0), "0");
  EXPECT_EQ(Digits(120), "120");
  EXPECT_EQ(Digits(31.40625), "31.41");
  EXPECT_EQ(Digits(1.5), "1.5");
  EXPECT_EQ(Digits(999.999), "1000");
  EXPECT_EQ(Digits(4011.71875), "4011.7");
  EXPECT_EQ(Digits(16000), "16000");
}

TEST(AmountTest, AutoSuitsTheLargest) {
  EXPECT_EQ(ChooseUnit("auto", 1e9).name, "GB");
  EXPECT_EQ(ChooseUnit("auto", 999'999'999).name, "MB");
  EXPECT_EQ(ChooseUnit("GB", 1).name, "GB");
  EXPECT_EQ(ChooseUnit("MiB", 1).bytes, 1 << 20);
  EXPECT_EQ(ChooseUnit("GiB", 1).bytes, 1 << 30);
}

TEST(AmountTest, BytesAreExact) {
  EXPECT_EQ(ChooseUnit("bytes", 1).Of({2973192, 5}), "594638.4");
  EXPECT_EQ(ChooseUnit("MB", 1).Of({2973192, 4}), "0.74");
}

TEST(AmountTest, BestUnitGivesOneAtLeast) {
  EXPECT_EQ(InBestUnit(80e9), "80 GB");
  EXPECT_EQ(InBestUnit(2e12), "2000 GB");
  EXPECT_EQ(InBestUnit(1.5e6), "1.5 MB");
  EXPECT_EQ(InBestUnit(1000), "1 kB");
  EXPECT_EQ(InBestUnit(999), "999 bytes");
}

TEST(AmountTest, CountsOfParameters) {
  EXPECT_EQ(InBestCount(7'641'791'044), "7.64e9");
  EXPECT_EQ(InBestCount(62'500'000), "62.5e6");
  EXPECT_EQ(InBestCount(247'766), "247766");
}

}  // namespace
}  // namespace rz
