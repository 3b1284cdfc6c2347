#include "collectives/shared/stream_copy.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(StreamCopyTest, CopiesWhatItIsToldAndNothingElse) {
  constexpr std::byte kGuard{0xee};
  std::vector<std::byte> from(1000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7);
  for (size_t bytes : {0, 1, 15, 63, 64, 65, 127, 128, 300, 700}) {
    for (size_t shift : {0, 1, 8, 63}) {
      for (size_t source : {0, 3}) {
        std::vector<std::byte> to(1000, kGuard);
        StreamCopy(to.data() + shift, from.data() + source, bytes);
        for (size_t i = 0; i < to.size(); ++i) {
          const bool inside = i >= shift && i < shift + bytes;
          ASSERT_EQ(to[i], inside ? from[source + i - shift] : kGuard) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rz
