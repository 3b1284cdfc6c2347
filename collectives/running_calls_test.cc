#include "collectives/running_calls.h"

#include <array>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

using ::testing::ElementsAre;

struct Call : RunningCall {
  explicit Call(int made_of) : made_of(made_of) {}
  int made_of;
};

TEST(RunningCallsTest, TheOldestGoesFirstAndItsMemoryIsUsedAgain) {
  RunningCalls<Call> calls;
  EXPECT_TRUE(calls.empty());
  Call* const first = &calls.Add(7, Plan{}, 1);
  Call* const second = &calls.Add(9, Plan{}, 2);
  EXPECT_EQ(&calls.oldest(), first);
  EXPECT_TRUE(calls.IsOldest(*first));
  EXPECT_FALSE(calls.IsOldest(*second));
  calls.PopOldest();
  EXPECT_EQ(calls.oldest().number, 9);
  EXPECT_EQ(&calls.Add(11, Plan{}, 3), first);
  EXPECT_EQ(first->made_of, 1);
  EXPECT_EQ(first->number, 11);
  EXPECT_EQ(calls.size(), 2);
  calls.Clear();
  EXPECT_TRUE(calls.empty());
}

TEST(RunningCallsTest, FindsCallsByNumber) {
  RunningCalls<Call> calls;
  calls.Add(3, Plan{}, 0);
  calls.Add(5, Plan{}, 0);
  EXPECT_EQ(calls.Find(5)->number, 5);
  EXPECT_EQ(calls.Find(4), nullptr);
  EXPECT_TRUE(calls.AreDone(4, 4));
  EXPECT_TRUE(calls.AreDone(6, 9));
  EXPECT_FALSE(calls.AreDone(1, 3));
  EXPECT_EQ(calls.FirstRunning(4, 9), 5);
  EXPECT_EQ(calls.FirstRunning(6, 9), 9);
}

TEST(RunningCallsTest, WhatFailedIsRemembered) {
  RunningCalls<Call> calls;
  calls.Add(3, Plan{}, 0);
  calls.PopOldest();
  calls.Add(5, Plan{}, 0);
  calls.Add(6, Plan{}, 0);
  std::vector<int64_t> told;
  calls.Fail([&](int64_t number) { told.push_back(number); });
  EXPECT_THAT(told, ElementsAre(5, 6));
  calls.Clear();
  EXPECT_TRUE(calls.HasFailed(6, 8));
  EXPECT_TRUE(calls.HasFailed(1, 5));
  EXPECT_FALSE(calls.HasFailed(3, 4));
}

}  // namespace
}  // namespace rz
