#include "runtime/base/cores.h"

#include <sched.h>

#include <thread>

#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(CoresTest, AThreadThatIsBoundHasOneCore) {
  std::thread([] {
    const Cores before = OwnCores();
    ASSERT_GE(before.count, 1);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(OwnCores().count, 1);
    if (before.count > 1) EXPECT_NE(OwnCores().hash, before.hash);
  }).join();
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
