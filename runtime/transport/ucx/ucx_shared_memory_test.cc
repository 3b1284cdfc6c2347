#include "runtime/transport/ucx/ucx_shared_memory.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/conformance/shared_memory.h"
#include "runtime/transport/ucx/ucx_transport.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Count : public CompletionSink {
 public:
  void OnComplete(uint64_t, const absl::Status& status, size_t) override {
    EXPECT_OK(status);
    ++done;
  }
  int done = 0;
};

// One message from everybody to everybody: all connections stand.
void Meet(const std::vector<std::unique_ptr<Transport>>& ranks) {
  Count count;
  int posted = 0;
  std::byte out{}, in[16] = {};
  for (const auto& from : ranks) {
    for (const auto& to : ranks) {
      if (from == to) continue;
      ASSERT_OK(from->PostSend(to->rank(), 1, absl::MakeConstSpan(&out, 1), &count, 0));
      ASSERT_OK(to->PostRecv(from->rank(), 1, absl::MakeSpan(&in[posted % 16], 1), &count, 0));
      posted += 2;
    }
  }
  while (count.done < posted) {
    for (const auto& rank : ranks) rank->Progress();
  }
}

std::vector<std::unique_ptr<Transport>> Open(int world, UcxOptions::Transports transports) {
  UcxOptions options;
  options.transports = transports;
  if (transports == UcxOptions::Transports::kTcp) options.net_device = "lo";
  options.leave_timeout = absl::ZeroDuration();
  std::vector<std::unique_ptr<Transport>> ranks;
  std::vector<std::string> addresses;
  for (int r = 0; r < world; ++r) {
    auto transport = CreateUcxTransport(options);
    EXPECT_OK(transport);
    addresses.push_back((*transport)->LocalAddress());
    ranks.push_back(*std::move(transport));
  }
  for (int r = 0; r < world; ++r) EXPECT_OK(ranks[r]->Connect(Rank(r), addresses, Epoch(1)));
  Meet(ranks);
  return ranks;
}

TEST(UcxSharedMemoryTest, RanksOfOneHostSeeEachOthersMemory) {
  const auto ranks = Open(3, UcxOptions::Transports::kAutomatic);
  std::vector<Transport*> transports;
  for (const auto& rank : ranks) transports.push_back(rank.get());
  EXPECT_THAT(conformance::CheckSharedMemory(transports), IsEmpty());
}

TEST(UcxSharedMemoryTest, MoreThanThereIsIsRefusedBeforeAnyOfItIsTaken) {
  const auto ranks = Open(1, UcxOptions::Transports::kAutomatic);
  EXPECT_THAT(ranks[0]->AllocateShared(SIZE_MAX / 2),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no room for")));
}

TEST(UcxSharedMemoryTest, MemoryThatIsNeverGivenBackOutlivesItsTransport) {
#if defined(__SANITIZE_ADDRESS__)
  // UCX, which is left open here, keeps endpoints in memory that is not searched for pointers.
  const __lsan::ScopedDisabler meant;
#endif
  auto ranks = Open(2, UcxOptions::Transports::kAutomatic);
  ASSERT_OK_AND_ASSIGN(auto region, ranks[0]->AllocateShared(100));
  static SharedMemory* const kept = region.release();
  ranks.clear();
  kept->bytes()[99] = std::byte{7};
  EXPECT_EQ(kept->bytes()[99], std::byte{7});
}

TEST(UcxSharedMemoryTest, OverTcpMemoryIsNotReached) {
  const auto ranks = Open(2, UcxOptions::Transports::kTcp);
  ASSERT_OK_AND_ASSIGN(auto region, ranks[0]->AllocateShared(1));
  EXPECT_THAT(ranks[1]->MapShared(Rank(0), region->key()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot be reached from here")));
}

TEST(UcxSharedMemoryTest, WhatIsMappedHasToProveItself) {
  const auto ranks = Open(2, UcxOptions::Transports::kAutomatic);
  ASSERT_OK_AND_ASSIGN(auto region, ranks[0]->AllocateShared(1));
  std::string key = region->key();
  constexpr size_t kProof = 16;
  key[kProof] = static_cast<char>(key[kProof] ^ 1);
  EXPECT_THAT(ranks[1]->MapShared(Rank(0), key),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("something else")));
}

TEST(UcxSharedMemoryTest, WhatItsOwnerHasGivenBackIsNotReached) {
  const auto ranks = Open(2, UcxOptions::Transports::kAutomatic);
  ASSERT_OK_AND_ASSIGN(auto region, ranks[0]->AllocateShared(1));
  const std::string key = region->key();
  region.reset();
  EXPECT_THAT(ranks[1]->MapShared(Rank(0), key),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot be reached")));
  // Another file may be what the owner has there now.
  ASSERT_OK_AND_ASSIGN(region, ranks[0]->AllocateShared(1));
  EXPECT_THAT(ranks[1]->MapShared(Rank(0), key),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot be reached")));
}

TEST(UcxSharedMemoryTest, ADoorbellEndsAWait) {
  for (auto transports : {UcxOptions::Transports::kAutomatic, UcxOptions::Transports::kTcp}) {
    const auto ranks = Open(2, transports);
    std::atomic<bool> woken{false};
    std::thread sleeper([&] {
      ranks[1]->WaitForEvent(Deadline::InfiniteFuture());
      woken = true;
    });
    while (!woken) {
      ranks[0]->RingDoorbell(Rank(1));
      ranks[0]->Progress();
    }
    sleeper.join();
  }
}

}  // namespace
}  // namespace rz
