#include "runtime/base/nearest_name.h"

#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(NearestNameTest, FindsTheNameWithFewestEdits) {
  EXPECT_EQ(NearestName("stpes", {"stage", "steps", "seed"}), "steps");
  EXPECT_EQ(NearestName("all_gahter", {"all_reduce", "all_gather"}), "all_gather");
  EXPECT_EQ(NearestName("dtyp", {"dtype", "dataset"}), "dtype");
}

TEST(NearestNameTest, SaysNothingWhereNothingIsNear) {
  EXPECT_EQ(NearestName("quantum", {"lr", "seed"}), "");
  EXPECT_EQ(NearestName("x", {}), "");
}

}  // namespace
}  // namespace rz
