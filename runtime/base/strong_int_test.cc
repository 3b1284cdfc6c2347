#include "runtime/base/strong_int.h"

#include <sstream>
#include <type_traits>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"
#include "runtime/base/types.h"

namespace rz {
namespace {

TEST(StrongIntTest, DifferentTagsDoNotConvert) {
  static_assert(!std::is_convertible_v<Rank, Epoch>);
  static_assert(!std::is_convertible_v<int, Rank>);
  static_assert(!std::is_convertible_v<Rank, int>);
  EXPECT_EQ(Rank(3).value(), 3);
}

TEST(StrongIntTest, ComparesHashesAndPrints) {
  EXPECT_LT(Rank(1), Rank(2));
  EXPECT_EQ(Rank(), Rank(0));
  absl::flat_hash_set<Rank> set = {Rank(1), Rank(1), Rank(2)};
  EXPECT_EQ(set.size(), 2u);
  std::ostringstream os;
  os << Epoch(7);
  EXPECT_EQ(os.str(), "7");
}

}  // namespace
}  // namespace rz
