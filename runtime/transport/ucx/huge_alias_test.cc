#include "runtime/transport/ucx/huge_alias.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

// Two huge pages and a little more.
constexpr size_t kBytes = 2 * kHugePage + 4096;

class Mapping {
 public:
  explicit Mapping(int flags) {
    const int file = (flags & MAP_ANONYMOUS) != 0 ? -1 : memfd_create("huge_alias_test", 0);
    EXPECT_TRUE(file < 0 || ftruncate(file, kBytes) == 0);
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, file, 0);
    EXPECT_NE(memory, MAP_FAILED);
    bytes_ = absl::MakeSpan(static_cast<std::byte*>(memory), kBytes);
    if (file >= 0) close(file);
  }
  ~Mapping() { Unmap(); }

  absl::Span<std::byte> bytes() const { return bytes_; }
  void Unmap() {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
    bytes_ = {};
  }

 private:
  absl::Span<std::byte> bytes_;
};

TEST(HugeAliasTest, IsTheSameMemoryAtAnAlignedAddress) {
  Mapping mapping(MAP_SHARED);
  mapping.bytes()[kBytes - 1] = std::byte{7};
  HugeAlias alias(mapping.bytes());
  ASSERT_EQ(alias.bytes().size(), kBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(alias.bytes().data()) % kHugePage, 0u);
  EXPECT_EQ(alias.bytes()[kBytes - 1], std::byte{7});
  alias.bytes()[kHugePage] = std::byte{9};
  EXPECT_EQ(mapping.bytes()[kHugePage], std::byte{9});

  mapping.Unmap();
  const HugeAlias moved = std::move(alias);
  EXPECT_EQ(moved.bytes()[kHugePage], std::byte{9});
}

TEST(HugeAliasTest, CollapsingKeepsWhatIsThere) {
  Mapping mapping(MAP_SHARED);
  for (size_t at = 0; at < kBytes; at += 1021) mapping.bytes()[at] = std::byte(at % 251);
  const HugeAlias alias(mapping.bytes());
  ASSERT_FALSE(alias.bytes().empty());
  const bool huge = alias.Collapse();
  for (size_t at = 0; at < kBytes; at += 1021) {
    ASSERT_EQ(alias.bytes()[at], std::byte(at % 251)) << at;
    ASSERT_EQ(mapping.bytes()[at], std::byte(at % 251)) << at;
  }
  mapping.bytes()[0] = std::byte{1};
  EXPECT_EQ(alias.bytes()[0], std::byte{1});
  if (!huge) GTEST_SKIP() << "this system gives shared memory no huge pages";
}

TEST(HugeAliasTest, PrivateMemoryHasNone) {
  const Mapping mapping(MAP_PRIVATE | MAP_ANONYMOUS);
  const HugeAlias alias(mapping.bytes());
  EXPECT_TRUE(alias.bytes().empty());
  EXPECT_FALSE(alias.Collapse());
}

}  // namespace
}  // namespace rz
