#include "runtime/transport/ucx/shared_room.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::ContainsRegex;

TEST(SharedRoomTest, ThereIsRoomForAPageAndNoneForMoreThanTheHostHas) {
  EXPECT_OK(CheckSharedRoom(0));
  EXPECT_OK(CheckSharedRoom(4096));
  for (const size_t bytes : {size_t{1} << 50, SIZE_MAX / 2, SIZE_MAX}) {
    EXPECT_THAT(CheckSharedRoom(bytes),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         ContainsRegex("no room for [0-9]+ bytes .*: .* has [0-9]+ free")));
  }
}

}  // namespace
}  // namespace rz
