// The wires between simulated ranks: messages, the receives they match, and the completions that
// result. Which message arrives next is drawn from a seeded generator; everything else follows from
// the transport's contract. Single-threaded. SimWorld (sim_world.h) gives it a face.
//
// With links (sim_links.h) nothing is drawn: every message is eager, arrives when the links say,
// and its send completes when it is out of the sender's hands.
//
// A message lives through
//   on the wire   eager: carries its bytes, its send has completed; rendezvous: only announced
//   arrived       at the destination, in order within its (source, tag), waiting for a receive
//   moving        rendezvous only: matched; the bytes still lie at the sender
// and ends in the completion of its receive (and, rendezvous, of its send).
#ifndef RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_NETWORK_H_
#define RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/base/types.h"
#include "runtime/transport/sim/sim_links.h"
#include "runtime/transport/sim/sim_random.h"
#include "runtime/transport/transport.h"

namespace rz {

class SimNetwork {
 public:
  struct Completion {
    CompletionSink* sink;
    uint64_t token;
    absl::Status status;
    size_t bytes;
  };

  // What a receive and its message must agree on, as seen from the destination.
  struct Stream {
    int source;
    int destination;
    Tag tag;
    int64_t epoch;

    friend bool operator==(const Stream&, const Stream&) = default;
  };

  // `links` may be null.
  SimNetwork(int endpoints, uint64_t seed, std::unique_ptr<SimLinks> links);

  // Draws everything from now on from `seed`.
  void Reseed(uint64_t seed) { random_ = SimRandom(seed); }
  SimRandom& random() { return random_; }

  void Send(const Stream& stream, absl::Span<const std::byte> data, bool eager,
            CompletionSink* sink, uint64_t token);
  void Receive(const Stream& stream, absl::Span<std::byte> buffer, CompletionSink* sink,
               uint64_t token);

  // Brings one message a step further, drawn among those that may be next. False: none is on its
  // way.
  bool DeliverOne();

  // The links, or null. With links, DeliverOne lets happen what their next moment has.
  const SimLinks* links() const { return links_.get(); }

  size_t in_flight() const { return flying_.size(); }

  // Completions waiting for `endpoint`, oldest first; the caller takes them.
  std::vector<Completion>& completions(int endpoint) { return completions_[endpoint]; }

  // Ends the receives of `endpoint` with this sink that no message has met.
  void CancelReceives(int endpoint, CompletionSink* sink, const absl::Status& cause);

  // Ends every operation of `endpoint` with `cause`; partners in the middle of a transfer get
  // Unavailable, all others are told nothing. Eager messages that have left it still arrive.
  void CancelAll(int endpoint, const absl::Status& cause);

  // Nothing of `endpoint` moves any more, except eager messages that have left it. Loud: what
  // others have under way with it completes with `cause`. Silent: it never completes.
  void Die(int endpoint, bool silent, const absl::Status& cause);

  // One line an operation that waits, in the order they were posted: "rank 2 waits for a message
  // from rank 1 (communicator 0, operation 7, lane 3)".
  std::vector<std::string> Waiting() const;

  // Grows with every post, delivery and death.
  int64_t events() const { return events_; }

 private:
  enum class State : uint8_t { kFree, kWire, kArrived, kMoving, kStranded };

  struct Message {
    State state = State::kFree;
    bool eager = false;
    Stream stream;
    size_t size = 0;
    std::vector<std::byte> payload;     // eager
    const std::byte* source = nullptr;  // rendezvous
    CompletionSink* sink = nullptr;     // its send has not completed yet
    uint64_t token = 0;
    int receive = -1;  // moving: what it matched
  };

  struct PendingReceive {
    State state = State::kFree;  // kArrived: posted; kMoving: matched; kStranded
    Stream stream;
    absl::Span<std::byte> buffer;
    CompletionSink* sink = nullptr;
    uint64_t token = 0;
  };

  int NewMessage();
  int NewReceive();
  void FreeMessage(int id);
  void FreeReceive(int id);
  void Arrive(int id);
  void Match(int message, int receive);
  bool FollowLinks();
  // Of a message that is eager, unless its send has completed before.
  void CompleteSend(int id, const absl::Status& status);
  void Finish(int message, int receive);
  void Complete(int endpoint, CompletionSink* sink, uint64_t token, const absl::Status& status,
                size_t bytes);
  void FailReceive(int id, const absl::Status& status);
  void FailSend(int id, const absl::Status& status);
  static std::string Describe(const Stream& stream);

  SimRandom random_;
  const std::unique_ptr<SimLinks> links_;
  std::vector<int> carried_;  // by the links, under their numbers; -1: taken off
  int64_t events_ = 0;
  std::deque<Message> messages_;
  std::deque<PendingReceive> receives_;
  std::vector<int> free_messages_;
  std::vector<int> free_receives_;
  std::vector<int> flying_;                // on the wire or moving, in order of their start
  std::vector<std::vector<int>> arrived_;  // per destination, in order of arrival
  std::vector<std::vector<int>> posted_;   // per destination, in order of posting
  std::vector<std::vector<Completion>> completions_;
  std::vector<bool> dead_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_NETWORK_H_
