// What the UCX transport knows about one other rank, and the control messages the two exchange.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_PEER_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_PEER_H_

#include <ucp/api/ucp.h>

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "runtime/base/clock.h"
#include "runtime/base/types.h"
#include "runtime/transport/ucx/operation.h"

namespace rz {

// An active message beside the tagged ones, in order with them on the wire. Both sides have one
// byte order: UCX itself needs that.
struct ControlMessage {
  enum Kind : uint8_t {
    kHello,     // the first message on a connection
    kLeaving,   // "you have all I ever sent"
    kReceived,  // the answer to kLeaving
    kAborted,   // "I gave up"
    kDoorbell,  // "look at what we share"
  };
  static constexpr unsigned kActiveMessageId = 1;

  uint8_t kind;
  uint8_t epoch;  // low 8 bits
  uint16_t reserved;
  int32_t rank;  // of the sender
};
static_assert(sizeof(ControlMessage) == 8);

struct Peer {
  enum class State : uint8_t {
    kConnected,
    kTroubled,  // the connection broke; what arrived before that is still being taken in
    kLeft,      // said goodbye; messages that have arrived can still be received
    kDead,
  };

  bool gone() const { return state == State::kLeft || state == State::kDead; }

  UcxTransport* transport = nullptr;
  Rank rank;
  State state = State::kConnected;
  ucs_status_t broken_with = UCS_OK;  // what UCX said of the connection
  absl::Status cause;                 // what its operations complete with once gone

  ucp_ep_h endpoint = nullptr;                          // nullptr: none, closing or closed
  void* close_request = nullptr;                        // the close under way
  Deadline abandon_after = Deadline::InfiniteFuture();  // what UCX still holds then is stuck
  Deadline close_after = Deadline::InfiniteFuture();    // it closes first until then
  int control_under_way = 0;                            // control messages UCX has not sent yet
  bool needs_attention = false;                         // is in UcxTransport::attention_
  bool met = false;               // its kHello is here: UCX's own handshake with it is over
  bool told = false;              // that we know that it left
  bool goodbye_answered = false;  // it has received all we sent
  OperationList under_way;        // in UCX, in the order posted
  std::array<ControlMessage, 5> outgoing;  // by kind; UCX may read them after the call
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_PEER_H_
