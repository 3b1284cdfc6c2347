#include "tools/train/exponential.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"

namespace rz {
namespace {

TEST(ExponentialTest, IsWithinAFewRoundingsOfTheLibrarys) {
  EXPECT_EQ(Exponential(0), 1.0);
  for (double x = 0; x > -690; x -= 0.0137) {
    const double expected = std::exp(x);
    ASSERT_NEAR(Exponential(x) / expected, 1.0, 1e-15) << x;
  }
}

TEST(ExponentialTest, FarBelow_IsZero) {
  EXPECT_EQ(Exponential(-701), 0.0);
  EXPECT_EQ(Exponential(-std::numeric_limits<double>::infinity()), 0.0);
}

TEST(ExponentialTest, NaN_StaysNaN) { EXPECT_TRUE(std::isnan(Exponential(std::nan("")))); }

}  // namespace
}  // namespace rz
