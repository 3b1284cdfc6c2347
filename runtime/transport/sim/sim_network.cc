#include "runtime/transport/sim/sim_network.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

void Remove(std::vector<int>& ids, int id) {
  ids.erase(std::remove(ids.begin(), ids.end(), id), ids.end());
}

}  // namespace

SimNetwork::SimNetwork(int endpoints, uint64_t seed, std::unique_ptr<SimLinks> links)
    : random_(seed),
      links_(std::move(links)),
      arrived_(endpoints),
      posted_(endpoints),
      completions_(endpoints),
      dead_(endpoints) {}

int SimNetwork::NewMessage() {
  if (free_messages_.empty()) {
    messages_.emplace_back();
    return static_cast<int>(messages_.size()) - 1;
  }
  const int id = free_messages_.back();
  free_messages_.pop_back();
  return id;
}

int SimNetwork::NewReceive() {
  if (free_receives_.empty()) {
    receives_.emplace_back();
    return static_cast<int>(receives_.size()) - 1;
  }
  const int id = free_receives_.back();
  free_receives_.pop_back();
  return id;
}

void SimNetwork::FreeMessage(int id) {
  messages_[id].state = State::kFree;
  messages_[id].sink = nullptr;
  free_messages_.push_back(id);
}

void SimNetwork::FreeReceive(int id) {
  receives_[id].state = State::kFree;
  free_receives_.push_back(id);
}

void SimNetwork::Complete(int endpoint, CompletionSink* sink, uint64_t token,
                          const absl::Status& status, size_t bytes) {
  completions_[endpoint].push_back({sink, token, status, bytes});
}

void SimNetwork::Send(const Stream& stream, absl::Span<const std::byte> data, bool eager,
                      CompletionSink* sink, uint64_t token) {
  ++events_;
  const int id = NewMessage();
  Message& message = messages_[id];
  message.state = State::kWire;
  message.eager = eager;
  message.stream = stream;
  message.size = data.size();
  message.sink = nullptr;
  if (links_ != nullptr) {
    message.payload.assign(data.begin(), data.end());
    message.sink = sink;
    message.token = token;
    const auto link = static_cast<size_t>(
        links_->Send(stream.source, stream.destination, static_cast<int64_t>(data.size())));
    if (link == carried_.size()) carried_.push_back(-1);
    carried_[link] = id;
  } else if (eager) {
    message.payload.assign(data.begin(), data.end());
    Complete(stream.source, sink, token, absl::OkStatus(), data.size());
  } else {
    message.source = data.data();
    message.sink = sink;
    message.token = token;
  }
  flying_.push_back(id);
}

void SimNetwork::Receive(const Stream& stream, absl::Span<std::byte> buffer, CompletionSink* sink,
                         uint64_t token) {
  ++events_;
  const int id = NewReceive();
  PendingReceive& receive = receives_[id];
  receive.state = State::kArrived;
  receive.stream = stream;
  receive.buffer = buffer;
  receive.sink = sink;
  receive.token = token;
  std::vector<int>& arrived = arrived_[stream.destination];
  const auto early = std::find_if(arrived.begin(), arrived.end(),
                                  [&](int message) { return messages_[message].stream == stream; });
  if (early == arrived.end()) {
    posted_[stream.destination].push_back(id);
    return;
  }
  const int message = *early;
  arrived.erase(early);
  Match(message, id);
}

bool SimNetwork::FollowLinks() {
  std::optional<SimLinks::Event> event = links_->Next();
  if (!event.has_value()) return false;
  for (; event.has_value(); event = links_->NextOfNow()) {
    ++events_;
    const int id = carried_[event->id];
    if (id < 0) continue;
    CompleteSend(id, absl::OkStatus());
    if (event->kind != SimLinks::Kind::kDelivered) continue;
    Remove(flying_, id);
    Arrive(id);
  }
  return true;
}

void SimNetwork::CompleteSend(int id, const absl::Status& status) {
  Message& message = messages_[id];
  if (message.sink == nullptr) return;
  Complete(message.stream.source, message.sink, message.token, status,
           status.ok() ? message.size : 0);
  message.sink = nullptr;
}

bool SimNetwork::DeliverOne() {
  if (links_ != nullptr) return FollowLinks();
  if (flying_.empty()) return false;
  ++events_;
  const size_t drawn = random_.Below(flying_.size());
  const int id = flying_[drawn];
  if (messages_[id].state == State::kMoving) {
    flying_.erase(flying_.begin() + static_cast<ptrdiff_t>(drawn));
    Finish(id, messages_[id].receive);
    return true;
  }
  // The oldest of the drawn message's stream goes first.
  const auto first = std::find_if(flying_.begin(), flying_.end(), [&](int other) {
    return messages_[other].state == State::kWire &&
           messages_[other].stream == messages_[id].stream;
  });
  const int oldest = *first;
  flying_.erase(first);
  Arrive(oldest);
  return true;
}

void SimNetwork::Arrive(int id) {
  Message& message = messages_[id];
  if (dead_[message.stream.destination]) {
    message.state = State::kStranded;
    if (message.eager) FreeMessage(id);
    return;
  }
  std::vector<int>& posted = posted_[message.stream.destination];
  const auto waiting = std::find_if(posted.begin(), posted.end(), [&](int receive) {
    return receives_[receive].stream == message.stream;
  });
  if (waiting == posted.end()) {
    message.state = State::kArrived;
    arrived_[message.stream.destination].push_back(id);
    return;
  }
  const int receive = *waiting;
  posted.erase(waiting);
  Match(id, receive);
}

void SimNetwork::Match(int message, int receive) {
  if (messages_[message].eager) {
    Finish(message, receive);
    return;
  }
  messages_[message].state = State::kMoving;
  messages_[message].receive = receive;
  receives_[receive].state = State::kMoving;
  flying_.push_back(message);
}

void SimNetwork::Finish(int message, int receive) {
  Message& from = messages_[message];
  const PendingReceive& to = receives_[receive];
  const bool fits = from.size <= to.buffer.size();
  if (fits && from.size > 0) {
    std::memcpy(to.buffer.data(), from.eager ? from.payload.data() : from.source, from.size);
  }
  const absl::Status status = fits ? absl::OkStatus()
                                   : absl::OutOfRangeError(absl::StrCat(
                                         "a message of ", from.size, " bytes met a receive of ",
                                         to.buffer.size(), " (", Describe(to.stream), ")"));
  Complete(to.stream.destination, to.sink, to.token, status, fits ? from.size : 0);
  if (!from.eager) {
    Complete(from.stream.source, from.sink, from.token, absl::OkStatus(), from.size);
  }
  FreeReceive(receive);
  FreeMessage(message);
}

void SimNetwork::FailReceive(int id, const absl::Status& status) {
  const PendingReceive& receive = receives_[id];
  Complete(receive.stream.destination, receive.sink, receive.token, status, 0);
  Remove(posted_[receive.stream.destination], id);
  FreeReceive(id);
}

// Also takes an eager message off the wires: its send has completed long ago.
void SimNetwork::FailSend(int id, const absl::Status& status) {
  const Message& message = messages_[id];
  if (!message.eager) Complete(message.stream.source, message.sink, message.token, status, 0);
  Remove(flying_, id);
  Remove(arrived_[message.stream.destination], id);
  FreeMessage(id);
}

void SimNetwork::CancelAll(int endpoint, const absl::Status& cause) {
  const absl::Status gone = absl::UnavailableError(
      absl::StrCat("rank ", endpoint, " gave up: ", absl::string_view(cause.message())));
  for (int id = 0; id < static_cast<int>(messages_.size()); ++id) {
    const Message& message = messages_[id];
    if (message.state == State::kFree) continue;
    const bool mine = message.stream.source == endpoint;
    if (message.state == State::kMoving && (mine || message.stream.destination == endpoint)) {
      FailReceive(message.receive, mine ? gone : cause);
      FailSend(id, mine ? cause : gone);
    } else if (mine && !message.eager) {
      FailSend(id, cause);
    } else if (mine) {
      CompleteSend(id, cause);
    }
  }
  for (int id = 0; id < static_cast<int>(receives_.size()); ++id) {
    const PendingReceive& receive = receives_[id];
    if (receive.state != State::kFree && receive.stream.destination == endpoint) {
      FailReceive(id, cause);
    }
  }
}

void SimNetwork::CancelReceives(int endpoint, CompletionSink* sink, const absl::Status& cause) {
  for (int id = 0; id < static_cast<int>(receives_.size()); ++id) {
    const PendingReceive& receive = receives_[id];
    const bool waits = receive.state == State::kArrived || receive.state == State::kStranded;
    if (waits && receive.stream.destination == endpoint && receive.sink == sink) {
      FailReceive(id, cause);
    }
  }
}

void SimNetwork::Die(int endpoint, bool silent, const absl::Status& cause) {
  ++events_;
  dead_[endpoint] = true;
  // The dead rank's own operations stay behind, stranded, until it is cancelled.
  for (int id = 0; id < static_cast<int>(messages_.size()); ++id) {
    Message& message = messages_[id];
    const bool from_dead = message.stream.source == endpoint;
    const bool to_dead = message.stream.destination == endpoint;
    if (message.state == State::kFree || !(from_dead || to_dead)) continue;
    if (message.state == State::kMoving) {
      // The receive is posted again: what has begun to move will not come.
      receives_[message.receive].state = State::kArrived;
      posted_[message.stream.destination].push_back(message.receive);
      message.receive = -1;
    }
    if (message.eager) continue;
    if (to_dead && !silent) {
      FailSend(id, cause);
    } else {
      Remove(flying_, id);
      Remove(arrived_[message.stream.destination], id);
      message.state = State::kStranded;
    }
  }
  if (silent) return;
  // What had left it still arrives, and before the news of its death.
  const std::vector<int> flying = flying_;
  for (int id : flying) {
    if (messages_[id].stream.source != endpoint) continue;
    CompleteSend(id, absl::OkStatus());
    std::replace(carried_.begin(), carried_.end(), id, -1);
    Remove(flying_, id);
    Arrive(id);
  }
  for (int id = 0; id < static_cast<int>(receives_.size()); ++id) {
    const PendingReceive& receive = receives_[id];
    if (receive.state != State::kFree && receive.stream.source == endpoint &&
        receive.stream.destination != endpoint) {
      FailReceive(id, cause);
    }
  }
}

std::string SimNetwork::Describe(const Stream& stream) {
  return absl::StrCat("communicator ", stream.tag >> 34, ", operation ",
                      (stream.tag >> 12) & 0x3fffff, ", lane ", stream.tag & 0xfff);
}

std::vector<std::string> SimNetwork::Waiting() const {
  std::vector<std::string> lines;
  for (const PendingReceive& receive : receives_) {
    if (receive.state == State::kFree) continue;
    lines.push_back(absl::StrCat("rank ", receive.stream.destination,
                                 " waits for a message from rank ", receive.stream.source, " (",
                                 Describe(receive.stream), ")"));
  }
  for (const Message& message : messages_) {
    if (message.state == State::kFree || message.eager) continue;
    lines.push_back(absl::StrCat("rank ", message.stream.source, " waits for rank ",
                                 message.stream.destination, " to receive (",
                                 Describe(message.stream), ")"));
  }
  return lines;
}

}  // namespace rz
