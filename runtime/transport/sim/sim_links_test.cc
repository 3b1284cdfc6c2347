#include "runtime/transport/sim/sim_links.h"

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = SimLinks::Kind;

// Bandwidths of 1 GB/s: a byte takes a nanosecond.
constexpr double kByteInNanosecond = 1e9;
constexpr SimTime kNanosecond = 1000;

LinkOptions Links(int64_t latency_ns, double rank_bandwidth) {
  LinkOptions options;
  options.latency = absl::Nanoseconds(latency_ns);
  options.rank_bandwidth = rank_bandwidth;
  return options;
}

// Nanoseconds at which each message is out of its sender's hands, and there.
struct Times {
  std::map<int, SimTime> sent;
  std::map<int, SimTime> delivered;
};

Times RunOut(SimLinks& links) {
  Times times;
  while (const auto event = links.Next()) {
    auto& of = event->kind == Kind::kSent ? times.sent : times.delivered;
    of[event->id] = links.now() / kNanosecond;
  }
  return times;
}

TEST(SimLinksTest, MessageNeedsLatencyAndItsBytes) {
  SimLinks links(2, Links(100, kByteInNanosecond));
  const int id = links.Send(0, 1, 40);
  const Times times = RunOut(links);
  EXPECT_EQ(times.sent.at(id), 40);
  EXPECT_EQ(times.delivered.at(id), 140);
}

TEST(SimLinksTest, SenderServesOneAfterAnother) {
  SimLinks links(3, Links(100, kByteInNanosecond));
  const int first = links.Send(0, 1, 40);
  const int second = links.Send(0, 2, 10);
  const Times times = RunOut(links);
  EXPECT_EQ(times.sent.at(second), 50);
  EXPECT_EQ(times.delivered.at(first), 140);
  EXPECT_EQ(times.delivered.at(second), 150);
}

TEST(SimLinksTest, ReceiverServesWhoIsThereFirst) {
  SimLinks links(3, Links(100, kByteInNanosecond));
  links.Send(0, 1, 30);  // keeps rank 0 from sending the next one at once
  const int late = links.Send(0, 2, 40);
  const int early = links.Send(1, 2, 40);
  const Times times = RunOut(links);
  EXPECT_EQ(times.delivered.at(early), 140);
  // Its first byte is there at 130 and waits for the other message's last one.
  EXPECT_EQ(times.delivered.at(late), 180);
}

TEST(SimLinksTest, BothDirectionsAreApart) {
  SimLinks links(2, Links(0, kByteInNanosecond));
  const int there = links.Send(0, 1, 40);
  const int back = links.Send(1, 0, 40);
  const Times times = RunOut(links);
  EXPECT_EQ(times.delivered.at(there), 40);
  EXPECT_EQ(times.delivered.at(back), 40);
}

TEST(SimLinksTest, RanksOfAHostShareItsInterface) {
  // Ranks 0 and 1 of host 0 send to 2 and 3 of host 1, each as fast as the whole interface.
  LinkOptions options = Links(100, kByteInNanosecond);
  options.ranks_per_host = 2;
  options.host_bandwidth = kByteInNanosecond;
  SimLinks links(4, options);
  const int first = links.Send(0, 2, 40);
  const int second = links.Send(1, 3, 40);
  const Times times = RunOut(links);
  EXPECT_EQ(times.delivered.at(first), 140);
  EXPECT_EQ(times.delivered.at(second), 180) << "half the rate each";
  EXPECT_EQ(times.sent.at(second), 40) << "queued at the interface, out of the rank's hands";
}

TEST(SimLinksTest, InterfaceIsNotForMessagesWithinTheHost) {
  LinkOptions options = Links(100, kByteInNanosecond);
  options.ranks_per_host = 2;
  options.host_bandwidth = kByteInNanosecond / 1000;
  options.local_latency = absl::Nanoseconds(7);
  options.local_bandwidth = kByteInNanosecond * 2;
  SimLinks links(4, options);
  const int id = links.Send(0, 1, 40);
  EXPECT_EQ(RunOut(links).delivered.at(id), 27);
  EXPECT_EQ(links.most_sent_by_rank(), 40);
  EXPECT_EQ(links.most_sent_by_host(), 0);
}

TEST(SimLinksTest, HostsOfARackShareItsUplink) {
  // Three hosts of a rack, a rank each; a quarter of their bandwidth leaves the rack.
  LinkOptions options = Links(100, kByteInNanosecond);
  options.hosts_per_rack = 3;
  options.rack_bandwidth = kByteInNanosecond / 4;
  SimLinks links(6, options);
  const int within = links.Send(0, 1, 40);
  const int first = links.Send(1, 4, 40);
  const int second = links.Send(2, 5, 40);
  const Times times = RunOut(links);
  EXPECT_EQ(times.delivered.at(within), 140);
  EXPECT_EQ(times.delivered.at(first), 260);   // 4 ns a byte
  EXPECT_EQ(times.delivered.at(second), 420);  // behind it
  EXPECT_EQ(links.most_sent_by_host(), 40);
  EXPECT_EQ(links.most_sent_by_rack(), 80);
}

TEST(SimLinksTest, WithoutLimitsThereIsTheLatencyAlone) {
  SimLinks links(2, Links(100, 0));
  const int id = links.Send(0, 1, int64_t{1} << 40);
  const Times times = RunOut(links);
  EXPECT_EQ(times.sent.at(id), 0);
  EXPECT_EQ(times.delivered.at(id), 100);
}

TEST(SimLinksTest, EventsOfOneMomentComeInTheirOrderAndNumbersAreUsedAgain) {
  SimLinks links(8, Links(100, 0));
  std::vector<int> delivered;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(links.Send(i, 7, 0), i);
  links.SetTimer(50 * kNanosecond, 9);
  SimTime timer_at = 0;
  while (const auto event = links.Next()) {
    if (event->kind == Kind::kTimer) timer_at = links.now();
    if (event->kind == Kind::kDelivered) delivered.push_back(event->id);
  }
  EXPECT_THAT(delivered, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(timer_at, 50 * kNanosecond);
  EXPECT_LT(links.Send(0, 1, 0), 4) << "a number that is free";
  EXPECT_EQ(links.messages(), 5);
}

TEST(SimLinksTest, ImpossibleLinksAreRefused) {
  EXPECT_THAT(CheckLinks({}), IsOk());
  const auto refused = [](auto change, const char* what) {
    LinkOptions options;
    change(options);
    EXPECT_THAT(CheckLinks(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  refused([](LinkOptions& o) { o.latency = absl::Nanoseconds(-1); }, "latency");
  refused([](LinkOptions& o) { o.latency = absl::InfiniteDuration(); }, "latency");
  refused([](LinkOptions& o) { o.rank_bandwidth = -1; }, "bandwidth of a rank");
  refused([](LinkOptions& o) { o.host_bandwidth = std::numeric_limits<double>::infinity(); },
          "bandwidth of a host");
  refused([](LinkOptions& o) { o.ranks_per_host = 0; }, "ranks of a host");
  refused([](LinkOptions& o) { o.hosts_per_rack = -1; }, "hosts of a rack");
}

TEST(SimLinksTest, TimesAreWholePicoseconds) {
  EXPECT_EQ(SimTimeOf(absl::Microseconds(5)), 5'000'000);
  EXPECT_EQ(DurationOf(5'000'250), absl::Nanoseconds(5000.25));
}

}  // namespace
}  // namespace rz
