#include "runtime/transport/conformance/scenario.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace rz::conformance {
namespace {

// The eight bytes of `pattern` from position 8 * word.
uint64_t PatternWord(uint64_t pattern, uint64_t word) {
  uint64_t x = pattern * 0x9e3779b97f4a7c15 + word * 0xbf58476d1ce4e5b9 + 1;
  x = (x ^ x >> 30) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace

std::byte PatternByte(uint64_t pattern, size_t i) {
  return static_cast<std::byte>(PatternWord(pattern, i / 8) >> (8 * (i % 8)));
}

void FillPattern(uint64_t pattern, std::byte* data, size_t size) {
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = PatternWord(pattern, i / 8);
    std::memcpy(data + i, &word, std::min<size_t>(8, size - i));
  }
}

size_t FindDifference(uint64_t pattern, const std::byte* data, size_t size) {
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = PatternWord(pattern, i / 8);
    const size_t bytes = std::min<size_t>(8, size - i);
    if (std::memcmp(data + i, &word, bytes) == 0) continue;
    for (size_t j = i; j < size; ++j) {
      if (data[j] != PatternByte(pattern, j)) return j;
    }
  }
  return size;
}

Action& Script::Add(Action::Kind kind) {
  actions_.emplace_back();
  actions_.back().kind = kind;
  return actions_.back();
}

Script& Script::Send(int peer, Tag tag, size_t size, uint64_t pattern) {
  Action& action = Add(Action::Kind::kSend);
  action.peer = Rank(peer);
  action.tag = tag;
  action.size = size;
  action.pattern = pattern;
  action.outcomes = {Outcome{}};
  return *this;
}

Script& Script::SyncSend(int peer, Tag tag, size_t size, uint64_t pattern) {
  Send(peer, tag, size, pattern);
  actions_.back().kind = Action::Kind::kSyncSend;
  return *this;
}

Script& Script::Receive(int peer, Tag tag, size_t size, uint64_t pattern) {
  Send(peer, tag, size, pattern);
  actions_.back().kind = Action::Kind::kReceive;
  actions_.back().message_size = size;
  return *this;
}

Script& Script::RefusedSend(int peer, Tag tag, Outcome outcome) {
  Send(peer, tag, 8, 0);
  actions_.back().kind = Action::Kind::kRefusedSend;
  return Ends({std::move(outcome)});
}

Script& Script::RefusedReceive(int peer, Tag tag, Outcome outcome) {
  Receive(peer, tag, 8, 0);
  actions_.back().kind = Action::Kind::kRefusedReceive;
  return Ends({std::move(outcome)});
}

Script& Script::WaitAll() {
  Add(Action::Kind::kWaitAll);
  return *this;
}

Script& Script::WaitReceives() {
  Add(Action::Kind::kWaitReceives);
  return *this;
}

Script& Script::Poll(int count) {
  Add(Action::Kind::kPoll).count = count;
  return *this;
}

Script& Script::Rest(absl::Duration duration) {
  Add(Action::Kind::kRest).duration = duration;
  return *this;
}

Script& Script::Abort(std::string text) {
  Add(Action::Kind::kAbort).text = std::move(text);
  return *this;
}

Script& Script::AbortFromThread(std::string text) {
  Add(Action::Kind::kAbortFromThread).text = std::move(text);
  return *this;
}

Script& Script::WaitUntilWoken() {
  Add(Action::Kind::kWaitUntilWoken);
  return *this;
}

Script& Script::WaitUntilDeadline(absl::Duration duration) {
  Add(Action::Kind::kWaitUntilDeadline).duration = duration;
  return *this;
}

Script& Script::Die() {
  Add(Action::Kind::kDie);
  return *this;
}

Script& Script::Misaligned(size_t bytes) {
  actions_.back().misalignment = bytes;
  return *this;
}

Script& Script::IntoBufferOf(size_t bytes) {
  actions_.back().size = bytes;
  return *this;
}

Script& Script::Ends(std::vector<Outcome> outcomes) {
  actions_.back().outcomes = std::move(outcomes);
  return *this;
}

}  // namespace rz::conformance
