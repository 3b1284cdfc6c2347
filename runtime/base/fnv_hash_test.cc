#include "runtime/base/fnv_hash.h"

#include "gtest/gtest.h"

namespace rz {
namespace {

// Vectors of the algorithm's authors.
TEST(FnvHashTest, IsThatOfItsAuthors) {
  EXPECT_EQ(FnvHash(""), 0xcbf29ce484222325);
  EXPECT_EQ(FnvHash("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(FnvHash("foobar"), 0x85944171f73967e8);
}

TEST(FnvHashTest, GoesOnFromAnother) {
  EXPECT_EQ(FnvHash("bar", FnvHash("foo")), FnvHash("foobar"));
}

}  // namespace
}  // namespace rz
