#include "collectives/progress_thread.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/idle_transport.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

// Nothing but a descriptor that a test makes readable.
class EventTransport final : public IdleTransport {
 public:
  explicit EventTransport(bool shows_events = true)
      : fd_(shows_events ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1) {}
  ~EventTransport() override {
    if (fd_ >= 0) close(fd_);
  }

  void Event() { ASSERT_EQ(eventfd_write(fd_, 1), 0); }

  int EventDescriptor() const override { return fd_; }
  bool ArmEvent() override {
    eventfd_t count;
    return eventfd_read(fd_, &count) != 0;
  }
  std::string Description() const override { return "events alone"; }

 private:
  const int fd_;
};

// Is under way until it has been polled `polls_left` times. Its numbers are plain: the thread
// sanitizer sees a poll that is not within a turn.
class CountedWork final : public ProgressWork {
 public:
  explicit CountedWork(bool shows_events = true) : shows_events_(shows_events) {}

  int Poll() override {
    ++polls_;
    seen_polls.fetch_add(1);
    if (left_ > 0) --left_;
    return 0;
  }
  bool NeedsPolls() const override { return left_ > 0; }
  bool ShowsEvents() const override { return shows_events_; }

  // Within a turn.
  void Begin(int polls) { left_ = polls; }
  int polls() const { return polls_; }

  std::atomic<int> seen_polls{0};

 private:
  const bool shows_events_;
  int polls_ = 0;
  int left_ = 0;
};

void AwaitPolls(const CountedWork& work, int polls) {
  const Deadline patience = Deadline::After(*Clock::Steady(), absl::Seconds(60));
  while (work.seen_polls.load() < polls && !patience.HasPassed(*Clock::Steady())) {
    sched_yield();
  }
  ASSERT_GE(work.seen_polls.load(), polls);
}

class ProgressThreadTest : public ::testing::Test {
 protected:
  void Begin(CountedWork& work, int polls) {
    const ProgressThread::Section inside(thread_.get());
    work.Begin(polls);
  }

  EventTransport transport_;
  const std::shared_ptr<ProgressThread> thread_ = ProgressThread::Of(&transport_);
};

TEST_F(ProgressThreadTest, TransportHasOne) {
  EventTransport other;
  EXPECT_EQ(ProgressThread::Of(&transport_), thread_);
  EXPECT_NE(ProgressThread::Of(&other), thread_);
}

TEST_F(ProgressThreadTest, TransportWithoutEventsIsRefused) {
  EventTransport silent(/*shows_events=*/false);
  CountedWork work;
  EXPECT_THAT(ProgressThread::Of(&silent)->Start(&work),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("events alone")));
}

TEST_F(ProgressThreadTest, MovesWorkThatTheOwnerLeaves) {
  CountedWork work;
  ASSERT_THAT(thread_->Start(&work), IsOk());
  // Every wake is one poll, or it sleeps for good: a lost one shows as a hang.
  for (int i = 0; i < 1000; ++i) {
    const int before = work.seen_polls.load();
    Begin(work, 1);
    AwaitPolls(work, before + 1);
  }
  thread_->Stop(&work);
  EXPECT_FALSE(thread_->running());
}

TEST_F(ProgressThreadTest, MovesWorkAtAnEvent) {
  CountedWork work;
  ASSERT_THAT(thread_->Start(&work), IsOk());
  Begin(work, 1'000'000'000);
  for (int i = 0; i < 100; ++i) {
    const int before = work.seen_polls.load();
    transport_.Event();
    AwaitPolls(work, before + 1);
  }
  Begin(work, 0);
  thread_->Stop(&work);
}

TEST_F(ProgressThreadTest, MovesWorkWithoutEvents) {
  CountedWork work(/*shows_events=*/false);
  ASSERT_THAT(thread_->Start(&work), IsOk());
  Begin(work, 100);
  AwaitPolls(work, 100);
  thread_->Stop(&work);
}

TEST_F(ProgressThreadTest, OwnerInsideKeepsItOut) {
  CountedWork work(/*shows_events=*/false);
  ASSERT_THAT(thread_->Start(&work), IsOk());
  {
    const ProgressThread::Section inside(thread_.get());
    const ProgressThread::Section nested(thread_.get());
    const int before = work.polls();
    work.Begin(1'000'000'000);
    const Deadline later = Deadline::After(*Clock::Steady(), absl::Milliseconds(20));
    while (!later.HasPassed(*Clock::Steady())) thread_->Wake();
    EXPECT_EQ(work.polls(), before);
  }
  AwaitPolls(work, 1);
  Begin(work, 0);
  thread_->Stop(&work);
}

TEST_F(ProgressThreadTest, SleepsWithNothingUnderWay) {
  CountedWork work;
  ASSERT_THAT(thread_->Start(&work), IsOk());
  Begin(work, 3);
  AwaitPolls(work, 3);
  // Polling, it would come to thousands.
  const Deadline later = Deadline::After(*Clock::Steady(), absl::Milliseconds(20));
  while (!later.HasPassed(*Clock::Steady())) sched_yield();
  EXPECT_LT(work.seen_polls.load(), 20);
  thread_->Stop(&work);
}

TEST_F(ProgressThreadTest, LastWorkToStopEndsIt) {
  CountedWork first;
  CountedWork second;
  ASSERT_THAT(thread_->Start(&first), IsOk());
  ASSERT_THAT(thread_->Start(&second), IsOk());
  thread_->Stop(&first);
  const int before = second.seen_polls.load();
  Begin(second, 1);
  AwaitPolls(second, before + 1);
  const int first_polls = first.seen_polls.load();
  Begin(second, 1);
  AwaitPolls(second, before + 2);
  EXPECT_EQ(first.seen_polls.load(), first_polls);
  thread_->Stop(&second);
  EXPECT_FALSE(thread_->running());
  ASSERT_THAT(thread_->Start(&first), IsOk());
  EXPECT_TRUE(thread_->running());
  thread_->Stop(&first);
}

}  // namespace
}  // namespace rz
