#include "runtime/c_api/job_session.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/rendezvous/server.h"
#include "runtime/transport/idle_transport.h"

namespace rz::c_api {
namespace {

using ::rz::testing::StatusIs;
using Code = absl::StatusCode;

constexpr absl::Duration kGenerous = absl::Minutes(30);

// Is connected as `connects` says.
class LateTransport final : public IdleTransport {
 public:
  explicit LateTransport(absl::Status connects) : connects_(std::move(connects)) {}

  absl::Status Connect(Rank self, absl::Span<const std::string> addresses, Epoch epoch) override {
    return connects_.ok() ? IdleTransport::Connect(self, addresses, epoch) : connects_;
  }

 private:
  const absl::Status connects_;
};

using SessionOr = absl::StatusOr<std::shared_ptr<JobSession>>;

// A rank of a job of two at `address`, whose first transport is connected and whose others are as
// `later` says, one after the other, and then too.
class TestRank {
 public:
  TestRank(const std::string& address, int rank, std::vector<absl::Status> later) {
    JobEnvironment environment;
    environment.rendezvous = address;
    environment.world_size = 2;
    environment.rank = Rank(rank);
    JobOptions options;
    options.verdict_wait = absl::Milliseconds(20);  // nobody else knows the cause
    auto job = Job::Join(environment, std::make_unique<IdleTransport>(), options);
    EXPECT_OK(job.status());
    if (!job.ok()) return;
    size_t made = 0;
    session_ = std::make_shared<JobSession>(
        *std::move(job), false,
        [later = std::move(later), made]() mutable -> absl::StatusOr<std::unique_ptr<Transport>> {
          return std::make_unique<LateTransport>(made < later.size() ? later[made++]
                                                                     : absl::OkStatus());
        });
    handle_ = std::make_unique<JobHandle>(session_);
    const auto value = JobTable::Get().Insert(handle_.get());
    EXPECT_OK(value.status());
    session_->set_handle(*value);
    value_ = *value;
  }
  ~TestRank() {
    auto found = JobTable::Get().Find(value_);
    EXPECT_OK(found.status());
    if (found.ok()) static_cast<void>(JobTable::Get().Close(*std::move(found)));
  }

  JobSession& operator*() { return *session_; }
  JobSession* operator->() { return session_.get(); }

 private:
  std::shared_ptr<JobSession> session_;
  std::unique_ptr<JobHandle> handle_;
  const void* value_ = nullptr;
};

// What ranks do whose collectives fail, whichever of them knows it.
SessionOr RebuildOnceFailed(JobSession& session) {
  static_cast<void>(session.FirstCause(absl::UnavailableError("a peer is gone")));
  return session.Rebuild(1, kGenerous);
}

// The same again, of what may have come of it before the other rank failed to connect.
SessionOr RebuildTwice(JobSession& session) {
  const SessionOr rebuilt = RebuildOnceFailed(session);
  return rebuilt.ok() ? RebuildOnceFailed(**rebuilt) : session.Rebuild(1, kGenerous);
}

TEST(JobSessionTest, WhatCannotBeConnectedIsRebuiltInItsTurn) {
  ASSERT_OK_AND_ASSIGN(const auto server, RendezvousServer::Start({}));
  const auto expect_to_go_on = [](int rank, const SessionOr& rebuilt) {
    ASSERT_OK(rebuilt.status());
    EXPECT_EQ((*rebuilt)->job().world_size(), 2);
    EXPECT_EQ((*rebuilt)->job().rank(), Rank(rank));
    EXPECT_OK((*rebuilt)->failure());
    EXPECT_OK((*rebuilt)->Leave());
  };
  std::thread other([&] {
    TestRank rank(server->address(), 1, {});
    expect_to_go_on(1, RebuildTwice(*rank));
  });
  TestRank rank(server->address(), 0, {absl::UnavailableError("no route")});
  EXPECT_THAT(RebuildOnceFailed(*rank), StatusIs(Code::kUnavailable));
  expect_to_go_on(0, rank->Rebuild(1, kGenerous));
  other.join();
}

TEST(JobSessionTest, ARankThatLeavesWhatItCouldNotConnectIsNotWaitedFor) {
  ASSERT_OK_AND_ASSIGN(const auto server, RendezvousServer::Start({}));
  std::thread other([&] {
    TestRank rank(server->address(), 1, {});
    const SessionOr rebuilt = RebuildTwice(*rank);
    ASSERT_OK(rebuilt.status());
    EXPECT_EQ((*rebuilt)->job().world_size(), 1);
    EXPECT_OK((*rebuilt)->Leave());
  });
  TestRank rank(server->address(), 0, {absl::UnavailableError("no route")});
  EXPECT_THAT(RebuildOnceFailed(*rank), StatusIs(Code::kUnavailable));
  EXPECT_OK(rank->Leave());
  other.join();
}

}  // namespace
}  // namespace rz::c_api
