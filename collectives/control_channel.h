// ControlChannel: how the ranks of a communicator notice that they do not make the same calls.
//
// At each call a rank exchanges one message with each of its two neighbours in the ring of ranks
// (one in a world of two): the call's descriptor, and behind it, where it is small, the first
// message of the call's schedule to that neighbour, which then costs nothing more. If any two ranks
// make different calls, so do two neighbours, and each of the two is told without the other one's
// help. Whoever finds a difference sends the verdict (both ranks, both calls) to all ranks.
//
// Ranks are those of the communicator's group. The channel neither waits nor fails anything by
// itself: the communicator asks for the verdict and acts on it. Nothing is allocated once as many
// calls were under way before. Threads: the communicator's owner alone.
#ifndef RINGZERO_COLLECTIVES_CONTROL_CHANNEL_H_
#define RINGZERO_COLLECTIVES_CONTROL_CHANNEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/call_descriptor.h"
#include "collectives/group.h"
#include "collectives/limits.h"
#include "runtime/base/types.h"
#include "runtime/transport/transport.h"

namespace rz {

// Told of what the channel hears, from within Transport::Progress.
class ControlListener {
 public:
  // Descriptor and payload, if any, of `peer`'s call `number` are here, or will never be.
  virtual void OnCallHeard(int64_t number, Rank peer) = 0;

  // The ranks are found to disagree: nothing more may be taken from anybody.
  virtual void OnVerdict() = 0;

 protected:
  ~ControlListener() = default;
};

class ControlChannel final : public CompletionSink {
 public:
  // Transport and listener outlive the channel, and the channel what it has posted: see idle().
  ControlChannel(Transport* transport, Group group, uint32_t communicator_id,
                 ControlListener* listener);

  // Starts the exchange for this rank's next call; numbers count up from 1, one by one. The message
  // leaves with EndCall; between the two AttachPayload may be called.
  void BeginCall(const CallDescriptor& call);
  void EndCall();

  // Neighbours are counted from 0; -1: `peer` is none.
  static constexpr int kMaxNeighbours = 2;
  int NeighbourIndex(Rank peer) const;

  // Lets `data` travel with the message of the call that has begun; false where it cannot (no such
  // call has begun, no neighbour, too long, or there is something already). The data is copied.
  bool AttachPayload(int64_t number, Rank peer, absl::Span<const std::byte> data);

  // What neighbour `peer` has sent with the descriptor of call `number`, which this rank has made.
  // Nullopt: not here yet, OnCallHeard will tell. Nothing comes of a neighbour that is gone. The
  // payload stays until TakePayload.
  struct Heard {
    bool has_payload = false;
    absl::Span<const std::byte> payload;
  };
  std::optional<Heard> HeardFrom(int64_t number, Rank peer) const;
  void TakePayload(int64_t number, Rank peer);

  // The neighbours have made the same calls as this rank up to this number.
  int64_t agreed() const { return agreed_; }

  // As far as the neighbours are concerned, call `number` may end: they have made it and have been
  // told; or it moves nothing, and that holds for the one before.
  bool MayEnd(int64_t number) const {
    return number <= agreed_ || (number == agreed_ + 1 && MayEndAlone(number));
  }

  // OK, or FailedPrecondition: the verdict, the same text on all ranks that got it.
  const absl::Status& verdict() const { return verdict_; }
  // The verdict has come to everybody who can be told.
  bool verdict_is_out() const { return verdict_sends_ == 0; }

  // OK, or why a neighbour's descriptor of a call before the last one will never come.
  absl::Status failure() const { return FailureBefore(last_); }
  // Likewise of the last one: where no transfer of it tells.
  absl::Status FailureOfLast() const { return FailureBefore(last_ + 1); }

  // A neighbour is gone: this rank will never catch up.
  bool lost_a_neighbour() const;

  // "rank 1 has made the same calls, rank 3 has not called operation 41", for the message of a
  // missed deadline.
  std::string DescribeNeighbours() const;

  // Lets go of receives that nothing has met. Later completions are ignored.
  void Close();

  // The transport holds no memory of the channel.
  bool idle() const { return posted_ == 0; }
  // Every call this rank has made has been heard of from its neighbours.
  bool caught_up() const { return agreed_ >= last_; }

  int64_t bytes_sent() const { return bytes_sent_; }

  void OnComplete(uint64_t token, const absl::Status& status, size_t bytes) override;

 private:
  struct Message {
    CallDescriptor call;
    std::array<std::byte, kMaxPayloadWithCall> payload;
  };

  // What is expected of a neighbour for one call.
  struct Incoming {
    enum class State : uint8_t { kFree, kPosted, kHeard, kPayload, kDifferent };
    State state = State::kFree;
    bool sent = false;  // this rank's own message of the call has left
    size_t bytes = 0;
    Message message;
  };

  // The exchange with one neighbour.
  struct Link {
    Rank peer;
    std::vector<std::unique_ptr<Incoming>> incoming;  // see Index
    int64_t heard = 0;                                // all calls up to here, and own ones sent
    int64_t taken = 0;                                // and no payload is left up to here
    absl::Status failure;                             // why nothing more will be heard
    std::deque<Message> outgoing;
    std::vector<uint32_t> free_outgoing;
    uint32_t open = 0;  // the one in `outgoing` of the call that has begun
  };

  // As it travels; version 1 is the descriptors' version.
  struct Verdict {
    static constexpr uint32_t kMagic = 0x44565a52;  // "RZVD"
    uint32_t magic = kMagic;
    int32_t ranks[2] = {0, 0};
    uint32_t reserved = 0;
    CallDescriptor calls[2];
  };

  // Place of a call in tables that hold the last `window_` calls.
  size_t Index(int64_t number) const { return static_cast<size_t>(number) & (window_ - 1); }
  bool MayEndAlone(int64_t number) const;
  absl::Status FailureBefore(int64_t number) const;

  // Doubles the tables while the oldest call that is still needed is in the way of the next one.
  void MakeRoom();

  const Link* LinkOf(Rank peer) const;
  Link* LinkOf(Rank peer) {
    return const_cast<Link*>(static_cast<const ControlChannel*>(this)->LinkOf(peer));
  }
  static void AddOutgoing(Link& link);
  void PostCallReceive(size_t link, int64_t number);
  void PostCallSend(size_t link);
  void OnCallSent(Link& link, uint32_t outgoing);
  void OnCallReceived(Link& link, int64_t number, const absl::Status& status, size_t bytes);
  // Differs, or cannot be read.
  void OnOtherCall(const Link& link, int64_t number);
  void Advance(Link& link);

  void PostVerdictReceives();
  void OnVerdictReceived(Rank from, const absl::Status& status, size_t bytes);
  void SendVerdict(const Verdict& verdict);
  void SetVerdict(const absl::Status& verdict);

  Transport* const transport_;
  const Group group_;
  ControlListener* const listener_;
  const Tag call_tag_;
  const Tag verdict_tag_;

  std::vector<Link> links_;
  size_t window_;                     // a power of two
  std::vector<CallDescriptor> mine_;  // see Index
  int64_t last_ = 0;                  // the call begun last
  bool open_ = false;                 // between BeginCall and EndCall
  int64_t agreed_ = 0;

  absl::Status verdict_;
  Verdict outgoing_verdict_;
  std::vector<Verdict> incoming_verdicts_;  // by rank
  int verdict_sends_ = 0;

  int posted_ = 0;  // operations the transport holds
  bool closed_ = false;
  int64_t bytes_sent_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_CONTROL_CHANNEL_H_
