// What a Join says while it waits, with a real client and server.
#include "runtime/rendezvous/wait_notices.h"

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/base/sync.h"
#include "runtime/rendezvous/client.h"
#include "runtime/rendezvous/server.h"

namespace rz {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Longer than any loaded machine needs; never waited for when the code is right.
constexpr absl::Duration kGenerous = absl::Seconds(120);

TEST(WaitNoticesTest, EachIsDueAfterTwiceTheTime) {
  Mutex mutex;
  std::vector<absl::Duration> waited;
  Notification third;
  {
    const WaitNotices notices(
        absl::Milliseconds(20),
        [&](absl::Duration time) {
          MutexLock lock(&mutex);
          waited.push_back(time);
          return absl::StrCat(waited.size());
        },
        [&](const std::string& text) {
          if (text == "3") third.Notify();
        });
    ASSERT_TRUE(third.WaitFor(kGenerous));
  }
  EXPECT_GE(waited[0], absl::Milliseconds(20));
  EXPECT_GE(waited[1], absl::Milliseconds(40));
  EXPECT_GE(waited[2], absl::Milliseconds(80));
}

TEST(WaitNoticesTest, AShortWaitIsSilent) {
  const WaitNotices notices(
      absl::Hours(1), [](absl::Duration) { return ""; },
      [](const std::string&) { ADD_FAILURE() << "said something"; });
}

// The first line with `wanted` of those that a Join says while it waits, which `end` must then end.
class WaitNoticeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(server_, RendezvousServer::Start({})); }

  std::string FirstNotice(RendezvousClientOptions options, const std::string& wanted,
                          const std::function<void()>& end) {
    Mutex mutex;
    std::string notice;
    Notification said;
    options.first_notice = absl::Milliseconds(20);
    options.say = [&](const std::string& text) {
      MutexLock lock(&mutex);
      if (text.find(wanted) == std::string::npos || said.HasHappened()) return;
      notice = text;
      said.Notify();
    };
    std::thread joining([&] { (void)RendezvousClient::Join(options); });
    EXPECT_TRUE(said.WaitFor(kGenerous));
    end();
    joining.join();
    MutexLock lock(&mutex);
    return notice;
  }

  RendezvousClientOptions Options(int world_size) {
    RendezvousClientOptions options;
    options.address = server_->address();
    options.world_size = world_size;
    return options;
  }

  std::unique_ptr<RendezvousServer> server_;
};

TEST_F(WaitNoticeTest, ARankThatWaitsForOthersSaysForWhom) {
  RendezvousClientOptions options = Options(4);
  options.wanted_rank = 2;
  options.join_timeout = absl::Seconds(200);
  const std::string notice = FirstNotice(options, "have joined", [&] {
    FailureReport report;
    report.job = options.job;
    server_->service()->ReportFailure(report, [](const Reply&) {});
  });
  EXPECT_THAT(notice, AllOf(HasSubstr("rank 2 waits for ranks 0-1, 3: 1 of 4 have joined at " +
                                      server_->address() + ", "),
                            HasSubstr(" s of 200 s")));
}

TEST_F(WaitNoticeTest, ARankThatCannotReachTheRendezvousSaysWhere) {
  RendezvousClientOptions options = Options(1);
  options.connect_timeout = absl::Seconds(300);
  RendezvousServerOptions again;
  again.listen = options.address;
  server_->Shutdown();
  const std::string notice = FirstNotice(options, "waits for the rendezvous", [&] {
    ASSERT_OK_AND_ASSIGN(server_, RendezvousServer::Start(again));
  });
  EXPECT_THAT(notice, AllOf(HasSubstr("this worker waits for the rendezvous at " + again.listen),
                            HasSubstr(" s of 300 s")));
}

}  // namespace
}  // namespace rz
