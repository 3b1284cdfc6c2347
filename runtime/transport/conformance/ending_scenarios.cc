#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/transport/conformance/scenarios.h"

namespace rz::conformance {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr char kCause[] = "the cause of the abort";

const Outcome kOk = {};
const Outcome kAborted = {absl::StatusCode::kAborted, kCause};

Outcome LostRank(int rank) { return {absl::StatusCode::kUnavailable, absl::StrCat("rank ", rank)}; }

uint64_t Pattern(int from, int to) { return 64 * from + to + 1; }

// One message from everybody to everybody: all connections stand.
void MeetEverybody(Script& script, const Context& c) {
  constexpr Tag kTag = 1000;
  for (int peer = 0; peer < c.world; ++peer) {
    script.Receive(peer, kTag, 8, Pattern(peer, c.rank));
    script.Send(peer, kTag, 8, Pattern(c.rank, peer));
  }
  script.WaitAll();
}

// Everything that can be in flight: receives without a message, messages without a receive, small
// and large, both directions.
void LeaveInFlight(Script& script, int peer, const std::vector<Outcome>& end) {
  std::vector<Outcome> end_or_ok = end;
  end_or_ok.push_back(kOk);
  for (size_t size : {size_t{0}, size_t{8}, 20000 + kMiB}) {
    script.Receive(peer, 1, size, 1).Ends(end);
    // A transport may have taken the message before.
    script.Send(peer, 2, size, 2).Ends(end_or_ok);
  }
}

Script AbortInFlight(const Context& c, bool from_thread) {
  Script script;
  MeetEverybody(script, c);
  if (c.rank == 0) {
    for (int peer = 0; peer < c.world; ++peer) LeaveInFlight(script, peer, {kAborted});
    script.Poll(2);
    from_thread ? script.AbortFromThread(kCause) : script.Abort(kCause);
    script.WaitAll();
    return script.RefusedSend(0, 1, kAborted).RefusedReceive(c.world - 1, 1, kAborted);
  }
  if (!c.Has(kReportsPeerAbort)) return script;
  LeaveInFlight(script, 0, {LostRank(0)});
  script.WaitAll();
  return script.RefusedSend(0, 1, LostRank(0)).RefusedReceive(0, 1, LostRank(0));
}

Script EverybodyAborts(const Context& c) {
  Script script;
  MeetEverybody(script, c);
  for (int peer = 0; peer < c.world; ++peer) {
    // A peer's end may be seen before one's own.
    std::vector<Outcome> end = {kAborted};
    if (peer != c.rank) end.push_back(LostRank(peer));
    LeaveInFlight(script, peer, end);
  }
  return script.Poll(static_cast<int>(c.seed % 3)).Abort(kCause).WaitAll();
}

// Large messages are half sent when rank 0 gives up.
Script AbortInMidTransfer(const Context& c) {
  Script script;
  MeetEverybody(script, c);
  const auto exchange = [&script](int peer, const Outcome& end) {
    for (Tag tag : {1, 2}) {
      script.Receive(peer, tag, 8 * kMiB, tag).Ends({kOk, end});
      script.Send(peer, tag, 8 * kMiB, tag).Ends({kOk, end});
    }
  };
  if (c.rank == 0) {
    for (int peer = 1; peer < c.world; ++peer) exchange(peer, kAborted);
    return script.Poll(static_cast<int>(c.seed * 10)).Abort(kCause).WaitAll();
  }
  exchange(0, LostRank(0));
  return script.WaitAll();
}

// Rank 0 aborts while the others are away with its last words in their sockets, and what they do
// first when they are back is to send.
Script SyncSendsOutliveAnAbort(const Context& c) {
  Script script;
  MeetEverybody(script, c);
  if (c.rank == 0) {
    for (int peer = 1; peer < c.world; ++peer) script.SyncSend(peer, 1, 8, Pattern(0, peer));
    script.WaitAll();
    for (int peer = 1; peer < c.world; ++peer) script.Receive(peer, 3, 8, 3).Ends({kAborted});
    return script.Abort(kCause).WaitAll();
  }
  script.Receive(0, 1, 8, Pattern(0, c.rank));
  script.Rest(absl::Milliseconds(100));
  script.Send(0, 2, kMiB, 2).Ends({LostRank(0)});
  return script.WaitAll();
}

Script FirstCauseWins(const Context& c) {
  Script script;
  LeaveInFlight(script, c.rank, {kAborted});
  script.Abort(kCause).Abort("a later cause").WaitAll();
  return script.RefusedSend(c.rank, 1, kAborted).RefusedReceive(c.rank, 1, kAborted);
}

Script BadArguments(const Context& c) {
  const Outcome refused = {absl::StatusCode::kInvalidArgument};
  Script script;
  for (int peer : {-1, c.world, 1 << 20}) {
    script.RefusedSend(peer, 1, refused).RefusedReceive(peer, 1, refused);
  }
  for (int peer = 0; peer < c.world; ++peer) {
    script.RefusedSend(peer, kMaxTag + 1, refused).RefusedReceive(peer, kMaxTag + 1, refused);
  }
  MeetEverybody(script, c);
  return script;
}

Script WakeWakes(const Context& c) {
  Script script;
  for (int i = 0; i < 20; ++i) script.WaitUntilWoken();
  MeetEverybody(script, c);
  return script.WaitUntilWoken();
}

Script WaitHonoursDeadline(const Context& c) {
  Script script;
  script.WaitUntilDeadline(-absl::Seconds(1)).WaitUntilDeadline(absl::ZeroDuration());
  script.WaitUntilDeadline(absl::Milliseconds(20));
  MeetEverybody(script, c);
  return script.WaitUntilDeadline(absl::Milliseconds(20));
}

// Rank 0 sends its last messages and goes; rank 1 takes its time to ask for them.
Script LastMessagesOutliveTheirSender(const Context& c) {
  Script script;
  MeetEverybody(script, c);
  if (c.rank == 0) {
    for (int peer = 1; peer < c.world; ++peer) {
      for (size_t size : {0, 8, 5000}) script.Send(peer, size, size, Pattern(0, peer) + size);
    }
    return script.WaitAll();
  }
  // The destructor of rank 0 waits for our progress, so the messages come before its end is known.
  script.Poll(c.Has(kRealTime) ? 5000 : 1);
  for (size_t size : {5000, 0, 8}) {
    script.Receive(0, size, size, Pattern(0, c.rank) + size).WaitAll();
  }
  return script;
}

// The others have operations of all kinds with the last rank when it dies, and go on without it.
Script SurvivorsOfADeath(const Context& c, bool in_mid_transfer) {
  const int victim = c.world - 1;
  Script script;
  MeetEverybody(script, c);
  if (c.rank == victim) {
    if (in_mid_transfer) {
      for (int peer = 0; peer < victim; ++peer) {
        script.Send(peer, 1, 16 * kMiB, 1).Receive(peer, 2, 16 * kMiB, 2);
      }
      script.Poll(static_cast<int>(c.seed * 7));
    }
    return script.Die();
  }
  const Outcome lost = LostRank(victim);
  if (in_mid_transfer) {
    script.Receive(victim, 1, 16 * kMiB, 1).Ends({kOk, lost});
    script.Send(victim, 2, 16 * kMiB, 2).Ends({kOk, lost});
  }
  script.Receive(victim, 3, 8, 3).Ends({lost});
  script.Receive(victim, 4, kMiB, 4).Ends({lost});
  script.WaitAll();
  script.RefusedSend(victim, 5, lost).RefusedReceive(victim, 5, lost);
  for (int peer = 0; peer < victim; ++peer) {
    script.Send(peer, 6, kMiB, Pattern(c.rank, peer)).Receive(peer, 6, kMiB, Pattern(peer, c.rank));
  }
  return script.WaitAll();
}

}  // namespace

std::vector<Scenario> EndingScenarios() {
  const auto abort = [](bool from_thread) {
    return [from_thread](const Context& c) { return AbortInFlight(c, from_thread); };
  };
  const auto death = [](bool in_mid_transfer) {
    return [in_mid_transfer](const Context& c) { return SurvivorsOfADeath(c, in_mid_transfer); };
  };
  constexpr Capabilities kDeath = kCanDie | kReportsPeerDeath;
  return {
      {"AbortInFlight", {1, 2, 3}, 0, abort(false)},
      {"AbortFromThread", {1, 2, 3}, kRealTime, abort(true)},
      {"EverybodyAborts", {2, 3, 5}, 0, EverybodyAborts, /*random=*/true},
      {"AbortInMidTransfer", {2, 3}, kReportsPeerAbort, AbortInMidTransfer, /*random=*/true},
      {"SyncSendsOutliveAnAbort", {2, 3}, kReportsPeerAbort | kRealTime, SyncSendsOutliveAnAbort},
      {"FirstCauseWins", {1, 2}, 0, FirstCauseWins},
      {"BadArguments", {1, 2}, 0, BadArguments},
      {"WakeWakes", {1, 2}, kRealTime, WakeWakes},
      {"WaitHonoursDeadline", {1, 2}, kRealTime, WaitHonoursDeadline},
      {"LastMessagesOutliveTheirSender", {2, 3}, 0, LastMessagesOutliveTheirSender},
      {"SurvivorsOfAnIdleDeath", {2, 3, 5}, kDeath, death(false)},
      {"SurvivorsOfADeathInMidTransfer", {2, 3}, kDeath, death(true), /*random=*/true},
  };
}

}  // namespace rz::conformance
