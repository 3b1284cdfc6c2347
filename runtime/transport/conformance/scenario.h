// A scenario says, as data, what every rank does with its transport and what it must see. Data and
// not code that blocks, so that one scenario runs on SimWorld in one thread, between threads and
// between processes alike.
#ifndef RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SCENARIO_H_
#define RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SCENARIO_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/base/types.h"
#include "runtime/transport/transport.h"

namespace rz::conformance {

// What a backend can do beyond the contract's core; a set of bits.
using Capabilities = uint32_t;
// Operations with a rank that died complete with Unavailable.
inline constexpr Capabilities kReportsPeerDeath = 1;
// Operations with a rank that aborted complete with Unavailable.
inline constexpr Capabilities kReportsPeerAbort = 2;
// A rank can be made to die.
inline constexpr Capabilities kCanDie = 4;
// Ranks run by themselves in real time: a rank may block, and use threads of its own.
inline constexpr Capabilities kRealTime = 8;

// One way an operation may end; `text` is part of the message.
struct Outcome {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string text = {};
};

struct Action {
  enum class Kind : uint8_t {
    kSend,               // posts; a refusal counts as the completion
    kSyncSend,           // likewise
    kReceive,            // posts; a refusal counts as the completion
    kRefusedSend,        // posts and must be refused
    kRefusedReceive,     // posts and must be refused
    kWaitAll,            // until everything posted has completed
    kWaitReceives,       // until all receives have completed
    kPoll,               // calls Progress `count` times
    kRest,               // calls nothing for `duration`
    kAbort,              // with AbortedError(text)
    kAbortFromThread,    // the same from another thread
    kWaitUntilWoken,     // WaitForEvent without end, until another thread has called Wake
    kWaitUntilDeadline,  // WaitForEvent until `duration` has passed
    kDie,
  };

  Kind kind = Kind::kWaitAll;
  Rank peer{0};
  Tag tag = 0;
  size_t size = 0;                // of the message, or of the receive's buffer
  size_t message_size = 0;        // of a receive: what comes
  uint64_t pattern = 0;           // chooses the payload
  size_t misalignment = 0;        // of the buffer, in bytes past an aligned address
  std::vector<Outcome> outcomes;  // any of them is right
  int count = 0;
  absl::Duration duration;
  std::string text;
};

// A rank's actions, with short ways to write them down.
class Script {
 public:
  Script& Send(int peer, Tag tag, size_t size, uint64_t pattern);
  Script& SyncSend(int peer, Tag tag, size_t size, uint64_t pattern);
  Script& Receive(int peer, Tag tag, size_t size, uint64_t pattern);
  Script& RefusedSend(int peer, Tag tag, Outcome outcome);
  Script& RefusedReceive(int peer, Tag tag, Outcome outcome);
  Script& WaitAll();
  Script& WaitReceives();
  Script& Poll(int count);
  Script& Rest(absl::Duration duration);
  Script& Abort(std::string text);
  Script& AbortFromThread(std::string text);
  Script& WaitUntilWoken();
  Script& WaitUntilDeadline(absl::Duration duration);
  Script& Die();

  // Change the last action.
  Script& Misaligned(size_t bytes);
  Script& IntoBufferOf(size_t bytes);
  Script& Ends(std::vector<Outcome> outcomes);

  const std::vector<Action>& actions() const { return actions_; }

 private:
  Action& Add(Action::Kind kind);

  std::vector<Action> actions_;
};

struct Context {
  int rank = 0;
  int world = 1;
  uint64_t seed = 1;
  Capabilities capabilities = 0;

  bool Has(Capabilities wanted) const { return (capabilities & wanted) == wanted; }
  int next() const { return (rank + 1) % world; }
  int previous() const { return (rank + world - 1) % world; }
};

struct Scenario {
  std::string name;
  std::vector<int> worlds;
  Capabilities needs = 0;
  std::function<Script(const Context&)> script;
  bool random = false;  // depends on the seed
};

// Payload byte `i` of `pattern`.
std::byte PatternByte(uint64_t pattern, size_t i);
void FillPattern(uint64_t pattern, std::byte* data, size_t size);
// The first position that differs, or `size`.
size_t FindDifference(uint64_t pattern, const std::byte* data, size_t size);

}  // namespace rz::conformance

#endif  // RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SCENARIO_H_
