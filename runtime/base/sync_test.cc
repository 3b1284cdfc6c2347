#include "runtime/base/sync.h"

#include <thread>

#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(SyncTest, WaitingEndsWithTheConditionOrTheTime) {
  Mutex mutex;
  CondVar changed;
  int value = 0;
  std::thread writer([&] {
    MutexLock lock(&mutex);
    value = 1;
    changed.NotifyAll();
  });
  {
    MutexLock lock(&mutex);
    EXPECT_TRUE(changed.WaitFor(&mutex, absl::InfiniteDuration(), [&] { return value == 1; }));
    EXPECT_FALSE(changed.WaitFor(&mutex, absl::Milliseconds(1), [&] { return value == 2; }));
    EXPECT_FALSE(changed.WaitFor(&mutex, -absl::Seconds(1), [&] { return value == 2; }));
  }
  writer.join();
}

TEST(SyncTest, ANotificationHappensOnce) {
  Notification notification;
  EXPECT_FALSE(notification.HasHappened());
  EXPECT_FALSE(notification.WaitFor(absl::Milliseconds(1)));
  int written = 0;
  std::thread other([&] {
    written = 1;
    notification.Notify();
  });
  EXPECT_TRUE(notification.WaitFor(absl::InfiniteDuration()));
  EXPECT_EQ(written, 1);
  EXPECT_TRUE(notification.HasHappened());
  other.join();
}

}  // namespace
}  // namespace rz
