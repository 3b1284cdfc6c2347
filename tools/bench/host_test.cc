#include "tools/bench/host.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::testing::ElementsAre;

TEST(HostTest, TheProcessorsNameIsReadFromItsLine) {
  EXPECT_EQ(ProcessorName("processor\t: 0\nmodel name\t: AMD EPYC: 9655\nmodel name\t: other\n"),
            "AMD EPYC: 9655");
  EXPECT_EQ(ProcessorName("processor : 0\n"), "unknown processor");
  EXPECT_EQ(ProcessorName(""), "unknown processor");
}

TEST(HostTest, TheMachineKeepsItsId) {
  EXPECT_EQ(MachineId(), MachineId());
  EXPECT_NE(MachineId(), "");
  EXPECT_NE(HostName(), "");
}

TEST(HostTest, RanksOfAMachineTakeItsProcessorsInTurn) {
  const std::vector<std::string> machines = {"a", "b", "a", "b", "a"};
  const std::vector<int> allowed = {4, 6, 9};
  EXPECT_EQ(ChooseProcessor(machines, 0, allowed, false), 4);
  EXPECT_EQ(ChooseProcessor(machines, 2, allowed, false), 6);
  EXPECT_EQ(ChooseProcessor(machines, 4, allowed, false), 9);
  EXPECT_EQ(ChooseProcessor(machines, 3, allowed, false), 6);
}

TEST(HostTest, MoreRanksThanProcessorsShareThemOnlyWhenAsked) {
  const std::vector<std::string> machines = {"a", "a", "a"};
  EXPECT_EQ(ChooseProcessor(machines, 0, {1, 2}, false), std::nullopt);
  EXPECT_EQ(ChooseProcessor(machines, 2, {1, 2}, true), 1);
  EXPECT_EQ(ChooseProcessor(machines, 2, {}, true), std::nullopt);
}

TEST(HostTest, BindingHoldsForTheThread) {
  const std::vector<int> allowed = AllowedProcessors();
  ASSERT_FALSE(allowed.empty());
  std::thread([&] {
    EXPECT_OK(BindThread(allowed.back()));
    EXPECT_THAT(AllowedProcessors(), ElementsAre(allowed.back()));
  }).join();
  EXPECT_EQ(AllowedProcessors(), allowed);
  EXPECT_EQ(BindThread(1023).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace rz
