#include "tools/train/non_finite.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"

namespace rz {
namespace {

TEST(NonFiniteTest, LargestMagnitude_IsInfiniteWhereAnyValueIsNot) {
  EXPECT_EQ(LargestMagnitude({}), 0);
  EXPECT_EQ(LargestMagnitude({1, -3, 2}), 3);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(LargestMagnitude({1, -infinity}), infinity);
  EXPECT_EQ(LargestMagnitude({NAN, 1}), infinity);
}

}  // namespace
}  // namespace rz
