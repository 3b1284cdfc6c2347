#include "runtime/memory/memory.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

TEST(BufferTest, IsZeroedAlignedAndCounted) {
  MemoryLedger ledger;
  for (size_t size : {size_t{1}, size_t{4096}, size_t{4097}, size_t{5} << 20}) {
    ASSERT_OK_AND_ASSIGN(Buffer buffer, Buffer::Allocate(size, MemoryTag::kMaster, &ledger));
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 4096, 0u);
    EXPECT_TRUE(std::all_of(buffer.bytes().begin(), buffer.bytes().end(),
                            [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(ledger.Current(MemoryTag::kMaster), size);
    EXPECT_EQ(ledger.CurrentTotal(), size);
  }
  EXPECT_EQ(ledger.CurrentTotal(), 0u);
  EXPECT_EQ(ledger.Peak(MemoryTag::kMaster), size_t{5} << 20);
  EXPECT_EQ(ledger.Peak(MemoryTag::kMoment1), 0u);
}

TEST(BufferTest, ZeroBytesAreABuffer) {
  MemoryLedger ledger;
  ASSERT_OK_AND_ASSIGN(Buffer buffer, Buffer::Allocate(0, MemoryTag::kOther, &ledger));
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_TRUE(buffer.as<float>().empty());
}

TEST(BufferTest, MovingKeepsOneAccount) {
  MemoryLedger ledger;
  ASSERT_OK_AND_ASSIGN(Buffer a, Buffer::Allocate(100, MemoryTag::kBucket, &ledger));
  Buffer b = std::move(a);
  EXPECT_EQ(ledger.Current(MemoryTag::kBucket), 100u);
  b = Buffer();
  EXPECT_EQ(ledger.Current(MemoryTag::kBucket), 0u);
}

TEST(BufferTest, TooMuchIsAnErrorThatSaysHowMuchAndForWhat) {
  EXPECT_THAT(Buffer::Allocate(SIZE_MAX - 5, MemoryTag::kMoment2),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("moment 2")));
  EXPECT_THAT(Buffer::Allocate(size_t{1} << 60, MemoryTag::kMoment2),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1152921504606846976")));
}

}  // namespace
}  // namespace rz
