#include "runtime/base/cores.h"

#include "gtest/gtest.h"
#include "runtime/base/one_core.h"

namespace rz {
namespace {

TEST(CoresTest, AThreadThatIsBoundHasOneCore) {
  const Cores before = OwnCores();
  ASSERT_GE(before.count, 1);
  testing::OnOneCore([&before] {
    EXPECT_EQ(OwnCores().count, 1);
    if (before.count > 1) {
      EXPECT_NE(OwnCores().hash, before.hash);
    }
  });
}

TEST(CoresTest, CoresOfThreadsThatMayRunOnTheSameOnesCountOnce) {
  const Cores both = {.count = 2, .hash = 7};
  EXPECT_EQ(CountCores({both, both, both}), 2);
}

TEST(CoresTest, CoresOfThreadsThatAreBoundAddUp) {
  EXPECT_EQ(CountCores({{.count = 1, .hash = 7}, {.count = 1, .hash = 8}, {.count = 2, .hash = 9}}),
            4);
}

}  // namespace
}  // namespace rz
