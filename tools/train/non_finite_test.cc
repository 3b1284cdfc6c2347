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

TEST(NonFiniteTest, Skip_NamesTheFirstRankAndItsParameter) {
  const std::vector<MlpParameter> parameters = {{"a", {}}, {"b", {}}};
  EXPECT_EQ(DescribeSkip({2, 1, 0}, parameters), "rank 1's gradient of b is not finite");
  EXPECT_EQ(DescribeSkip({0, 2}, parameters), "rank 0's gradient of a is not finite");
  EXPECT_EQ(DescribeSkip({2, 2}, parameters),
            "the gradient of each rank is finite, their mean is not");
}

}  // namespace
}  // namespace rz
