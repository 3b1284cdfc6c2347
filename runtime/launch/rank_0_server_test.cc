#include "runtime/launch/rank_0_server.h"

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/rendezvous/client.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr absl::Duration kGenerous = absl::Minutes(30);

using ClientOr = absl::StatusOr<std::unique_ptr<RendezvousClient>>;

// Two ranks of a job whose rank 0 serves.
class Rank0ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = "/tmp/rank_0_server_test-XXXXXX";  // TempDir's name may be too long for a socket's
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    const std::string address = absl::StrCat("unix:", folder_, "/socket");
    ASSERT_OK_AND_ASSIGN(
        server_, Rank0Server::Start({.listen = address, .token_file = "", .insecure = false}));
    const auto join = [&](int rank) {
      RendezvousClientOptions options;
      options.address = address;
      options.world_size = 2;
      options.wanted_rank = rank;
      options.rank_0_serves = true;
      return RendezvousClient::Join(options);
    };
    std::thread other([&] { one_ = join(1); });
    zero_ = join(0);
    other.join();
    ASSERT_OK(zero_.status());
    ASSERT_OK(one_.status());
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  absl::Status Serve(absl::Duration patience) {
    return server_->ServeUntilDone("default", (*zero_)->epoch(), patience);
  }

  std::string folder_;
  std::unique_ptr<Rank0Server> server_;
  ClientOr zero_;
  ClientOr one_;
};

TEST_F(Rank0ServerTest, ServesAsLongAsARankIsThereAndNoLongerThanItHasPatience) {
  EXPECT_OK((*zero_)->Leave());
  EXPECT_THAT(Serve(absl::Milliseconds(10)),
              StatusIs(Code::kDeadlineExceeded, HasSubstr("rank 1 was not done within 10ms")));
  std::thread other([&] { EXPECT_OK((*one_)->Leave()); });
  EXPECT_OK(Serve(kGenerous));
  other.join();
}

TEST_F(Rank0ServerTest, ServesAFailedJobUntilAllHaveBeenTold) {
  EXPECT_OK((*zero_)->ReportFailure(Rank(0), "disk full"));
  EXPECT_OK(Serve(kGenerous));
  server_.reset();
  EXPECT_THAT((*one_)->WaitForVerdict(kGenerous),
              ::testing::Optional(StatusIs(Code::kUnavailable, "rank 0 failed: disk full")));
}

}  // namespace
}  // namespace rz
