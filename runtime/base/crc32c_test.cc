#include "runtime/base/crc32c.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace rz {
namespace {

// Vectors of RFC 3720, section B.4.
TEST(Crc32cTest, MatchesTheStandardVectors) {
  EXPECT_EQ(Crc32c(0, std::string(32, '\0').data(), 32), 0x8a9136aau);
  EXPECT_EQ(Crc32c(0, std::string(32, '\xff').data(), 32), 0x62a8ab43u);
  std::vector<unsigned char> ascending(32);
  for (int i = 0; i < 32; ++i) ascending[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(Crc32c(0, ascending.data(), 32), 0x46dd794eu);
  EXPECT_EQ(Crc32c(0, "123456789", 9), 0xe3069283u);
}

TEST(Crc32cTest, NothingLeavesTheSumUnchanged) {
  EXPECT_EQ(Crc32c(0, nullptr, 0), 0u);
  EXPECT_EQ(Crc32c(0x1234u, nullptr, 0), 0x1234u);
}

TEST(Crc32cTest, PiecesGiveTheSumOfTheWhole) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  const uint32_t whole = Crc32c(0, text.data(), text.size());
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t head = Crc32c(0, text.data(), cut);
    EXPECT_EQ(Crc32c(head, text.data() + cut, text.size() - cut), whole) << cut;
  }
}

}  // namespace
}  // namespace rz
