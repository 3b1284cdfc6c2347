#include "runtime/transport/ucx/ucx_address.h"

#include <string>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

TEST(UcxAddressTest, UnwrapGivesBackWhatWasWrapped) {
  const std::string address("worker\0address", 14);
  const std::string wrapped = WrapUcxAddress(address);
  ASSERT_OK_AND_ASSIGN(const std::string_view unwrapped, UnwrapUcxAddress(wrapped));
  EXPECT_EQ(unwrapped, address);
}

TEST(UcxAddressTest, EveryFlippedBitIsRefused) {
  const std::string wrapped = WrapUcxAddress("a worker address of some length");
  for (size_t bit = 0; bit < 8 * wrapped.size(); ++bit) {
    std::string damaged = wrapped;
    damaged[bit / 8] ^= 1 << bit % 8;
    EXPECT_THAT(UnwrapUcxAddress(damaged), StatusIs(absl::StatusCode::kInvalidArgument)) << bit;
  }
}

TEST(UcxAddressTest, EveryTruncationIsRefused) {
  const std::string wrapped = WrapUcxAddress("a worker address of some length");
  for (size_t size = 0; size < wrapped.size(); ++size) {
    EXPECT_THAT(UnwrapUcxAddress(std::string_view(wrapped).substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << size;
  }
}

TEST(UcxAddressTest, SizeLimitIsExact) {
  EXPECT_OK(UnwrapUcxAddress(WrapUcxAddress(std::string(kMaxTransportAddressBytes - 8, 'x'))));
  EXPECT_THAT(UnwrapUcxAddress(WrapUcxAddress(std::string(kMaxTransportAddressBytes - 7, 'x'))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4097 bytes")));
}

}  // namespace
}  // namespace rz
