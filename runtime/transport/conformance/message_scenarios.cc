#include <random>
#include <utility>

#include "runtime/transport/conformance/scenarios.h"

namespace rz::conformance {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

// Tells messages apart by who sent which to whom.
uint64_t Pattern(int from, int to, uint64_t number) { return (number * 64 + from) * 64 + to + 1; }

// Around the sizes at which transports change their ways.
Script Sizes(const Context& c) {
  const size_t sizes[] = {0,
                          1,
                          3,
                          64,
                          8 * kKiB - 1,
                          8 * kKiB,
                          8 * kKiB + 1,
                          64 * kKiB - 1,
                          64 * kKiB,
                          64 * kKiB + 1,
                          kMiB - 1,
                          kMiB,
                          kMiB + 1};
  Script script;
  uint64_t number = 0;
  for (size_t size : sizes) {
    for (size_t misalignment : {0, 1, 7}) {
      script.Receive(c.previous(), 1, size, Pattern(c.previous(), c.rank, number));
      script.Misaligned(misalignment);
      script.Send(c.next(), 1, size, Pattern(c.rank, c.next(), number)).Misaligned(misalignment);
      ++number;
    }
    script.WaitAll();
  }
  return script;
}

Script OneLarge(const Context& c) {
  constexpr size_t kSize = 64 * kMiB;
  Script script;
  script.Receive(c.previous(), 1, kSize, Pattern(c.previous(), c.rank, 0));
  script.Send(c.next(), 1, kSize, Pattern(c.rank, c.next(), 0));
  return script.WaitAll();
}

// Small and large messages mix under one tag and must not overtake each other.
Script OrderPerTag(const Context& c) {
  const size_t sizes[] = {8, 100 * kKiB, 0, 9 * kKiB, 1, 300 * kKiB, 70 * kKiB};
  Script script;
  for (uint64_t i = 0; i < 70; ++i) {
    script.Send(c.next(), 9, sizes[i % 7], Pattern(c.rank, c.next(), i));
  }
  for (uint64_t i = 0; i < 70; ++i) {
    script.Receive(c.previous(), 9, sizes[i % 7], Pattern(c.previous(), c.rank, i));
  }
  return script.WaitAll();
}

Script TagsDoNotBlock(const Context& c) {
  Script script;
  for (Tag tag : {Tag{1}, Tag{2}, kMaxTag}) {
    script.Send(c.next(), tag, kMiB + tag % 7, Pattern(c.rank, c.next(), tag));
  }
  for (Tag tag : {kMaxTag, Tag{2}, Tag{1}}) {
    script.Receive(c.previous(), tag, kMiB + tag % 7, Pattern(c.previous(), c.rank, tag));
    // Only this receive is posted: were tags in one queue, its message would never come.
    script.WaitReceives();
  }
  return script.WaitAll();
}

// Rank 0's messages are there before their receives: the go-ahead was sent behind them.
Script EarlyMessageWaits(const Context& c) {
  Script script;
  if (c.rank == 0) {
    for (int peer = 1; peer < c.world; ++peer) {
      script.Send(peer, 1, 8, Pattern(0, peer, 1)).Send(peer, 1, 0, Pattern(0, peer, 2));
      script.Send(peer, 3, 200 * kKiB, Pattern(0, peer, 3)).Send(peer, 2, 1, Pattern(0, peer, 4));
    }
    return script.WaitAll();
  }
  script.Receive(0, 2, 1, Pattern(0, c.rank, 4)).WaitAll();
  script.Receive(0, 3, 200 * kKiB, Pattern(0, c.rank, 3));
  script.Receive(0, 1, 8, Pattern(0, c.rank, 1)).Receive(0, 1, 0, Pattern(0, c.rank, 2));
  return script.WaitAll();
}

// Rank 0 sends after it was told that the receives are posted.
Script EarlyReceiveWaits(const Context& c) {
  Script script;
  if (c.rank == 0) {
    for (int peer = 1; peer < c.world; ++peer) script.Receive(peer, 2, 1, Pattern(peer, 0, 9));
    script.WaitAll();
    for (int peer = 1; peer < c.world; ++peer) {
      script.Send(peer, 1, 8, Pattern(0, peer, 1)).Send(peer, 1, 0, Pattern(0, peer, 2));
      script.Send(peer, 3, 200 * kKiB, Pattern(0, peer, 3));
    }
    return script.WaitAll();
  }
  script.Receive(0, 3, 200 * kKiB, Pattern(0, c.rank, 3));
  script.Receive(0, 1, 8, Pattern(0, c.rank, 1)).Receive(0, 1, 0, Pattern(0, c.rank, 2));
  return script.Send(0, 2, 1, Pattern(c.rank, 0, 9)).WaitAll();
}

Script SelfMessages(const Context& c) {
  Script script;
  const int self = c.rank;
  for (size_t size : {size_t{0}, size_t{1}, 8 * kKiB + 1, kMiB + 1}) {
    script.Send(self, 1, size, size + 1).Receive(self, 1, size, size + 1);
    script.Receive(self, 2, size, size + 2).Send(self, 2, size, size + 2);
  }
  script.Receive(self, 3, 10, 31).Receive(self, 3, 20, 32).Receive(self, 4, 5, 41);
  script.Send(self, 4, 5, 41).Send(self, 3, 10, 31).Send(self, 3, 20, 32);
  script.Send(self, 5, 100, 51).Receive(self, 5, 99, 51);
  return script.Ends({{absl::StatusCode::kOutOfRange}}).WaitAll();
}

// A message that does not fit fails its receive and leaves the following ones alone.
Script Truncation(const Context& c) {
  Script script;
  uint64_t number = 0;
  for (size_t size : {size_t{1}, size_t{100}, 8 * kKiB + 1, 64 * kKiB, kMiB}) {
    for (size_t room : {size_t{0}, size / 2, size - 1, size}) {
      const uint64_t sent = Pattern(c.rank, c.next(), number);
      const uint64_t received = Pattern(c.previous(), c.rank, number++);
      script.Send(c.next(), 1, size, sent);
      script.Receive(c.previous(), 1, size, received).IntoBufferOf(room);
      if (room < size) script.Ends({{absl::StatusCode::kOutOfRange}});
    }
    script.WaitAll();
  }
  return script;
}

Script ShorterMessage(const Context& c) {
  Script script;
  uint64_t number = 0;
  for (size_t size : {size_t{0}, size_t{1}, 8 * kKiB, 64 * kKiB, kMiB}) {
    script.Receive(c.previous(), 1, size, Pattern(c.previous(), c.rank, number));
    script.IntoBufferOf(size + 70 * kKiB);
    script.Send(c.next(), 1, size, Pattern(c.rank, c.next(), number++));
  }
  return script.WaitAll();
}

Script ManySmall(const Context& c) {
  Script script;
  constexpr uint64_t kMessages = 10000;
  for (uint64_t i = 0; i < kMessages; ++i) {
    script.Receive(c.previous(), i % 16, 8 + i % 57, Pattern(c.previous(), c.rank, i));
  }
  for (uint64_t i = 0; i < kMessages; ++i) {
    script.Send(c.next(), i % 16, 8 + i % 57, Pattern(c.rank, c.next(), i));
  }
  return script.WaitAll();
}

// The messages of the pair (from, to): the same list on both sides.
std::vector<std::pair<Tag, size_t>> RandomMessages(uint64_t seed, int from, int to) {
  std::mt19937_64 random(seed * 1000003 + from * 1009 + to);
  std::vector<std::pair<Tag, size_t>> messages(10 + random() % 30);
  for (auto& [tag, size] : messages) {
    tag = random() % 3;
    size = random() & ((uint64_t{1} << random() % 18) - 1);
  }
  return messages;
}

// Everybody to everybody, itself included; each rank posts in an order of its own.
Script AllToAllRandom(const Context& c) {
  struct Stream {
    bool send;
    int peer;
    std::vector<std::pair<Tag, size_t>> messages;
    size_t posted = 0;
  };
  std::vector<Stream> streams;
  for (int peer = 0; peer < c.world; ++peer) {
    streams.push_back({true, peer, RandomMessages(c.seed, c.rank, peer)});
    streams.push_back({false, peer, RandomMessages(c.seed, peer, c.rank)});
  }
  std::mt19937_64 random(c.seed * 7919 + c.rank);
  Script script;
  while (!streams.empty()) {
    Stream& stream = streams[random() % streams.size()];
    const uint64_t number = stream.posted;
    const auto [tag, size] = stream.messages[stream.posted++];
    if (stream.send) {
      script.Send(stream.peer, tag, size, Pattern(c.rank, stream.peer, number));
    } else {
      script.Receive(stream.peer, tag, size, Pattern(stream.peer, c.rank, number));
    }
    script.Misaligned(random() % 9);
    if (random() % 4 == 0) script.Poll(1);
    if (stream.posted == stream.messages.size()) {
      std::swap(stream, streams.back());
      streams.pop_back();
    }
  }
  return script.WaitAll();
}

}  // namespace

std::vector<Scenario> MessageScenarios() {
  return {
      {"Sizes", {1, 2, 3, 5, 8}, 0, Sizes},
      {"OneLarge", {2}, 0, OneLarge},
      {"OrderPerTag", {1, 2, 3}, 0, OrderPerTag},
      {"TagsDoNotBlock", {1, 2, 3}, 0, TagsDoNotBlock},
      {"EarlyMessageWaits", {2, 3}, 0, EarlyMessageWaits},
      {"EarlyReceiveWaits", {2, 3}, 0, EarlyReceiveWaits},
      {"SelfMessages", {1, 3}, 0, SelfMessages},
      {"Truncation", {1, 2, 3}, 0, Truncation},
      {"ShorterMessage", {1, 2}, 0, ShorterMessage},
      {"ManySmall", {1, 2, 3}, 0, ManySmall},
      {"AllToAllRandom", {1, 2, 3, 5, 8}, 0, AllToAllRandom, /*random=*/true},
  };
}

}  // namespace rz::conformance
