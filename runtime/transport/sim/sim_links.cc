// 1. Send queues the message at "rank out": it alone uses that place, in the order of its sends, so
//    the moment at which the last byte leaves is known at once.
// 2. Where the first byte reaches the next place later than now, that is an event (kHead): places
//    that several ranks use serve in the order of arrival, which only the passing of time tells.
// 3. At "rank in" the moment of delivery is known.
#include "runtime/transport/sim/sim_links.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

constexpr double kPicosecondsInSecond = 1e12;

double PerByte(double bandwidth) { return bandwidth > 0 ? kPicosecondsInSecond / bandwidth : 0; }

int64_t Most(const std::vector<int64_t>& counts) {
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

}  // namespace

absl::Duration DurationOf(SimTime time) {
  return absl::Nanoseconds(time / 1000) + absl::Nanoseconds(static_cast<double>(time % 1000) / 1e3);
}

SimTime SimTimeOf(absl::Duration duration) {
  return std::llround(absl::ToDoubleNanoseconds(duration) * 1e3);
}

absl::Status CheckLinks(const LinkOptions& options) {
  const auto refuse = [](const char* what, auto value) {
    return absl::InvalidArgumentError(absl::StrCat(what, " cannot be ", value));
  };
  for (const auto& [name, bandwidth] :
       {std::pair{"the bandwidth of a rank", options.rank_bandwidth},
        {"the bandwidth of a host", options.host_bandwidth},
        {"the bandwidth of a rack", options.rack_bandwidth},
        {"the bandwidth within a host", options.local_bandwidth.value_or(0)}}) {
    if (!std::isfinite(bandwidth) || bandwidth < 0) return refuse(name, bandwidth);
  }
  for (const auto& [name, latency] :
       {std::pair{"the latency", options.latency},
        {"the latency within a host", options.local_latency.value_or(absl::ZeroDuration())}}) {
    if (latency < absl::ZeroDuration() || latency > absl::Hours(1)) {
      return refuse(name, absl::FormatDuration(latency));
    }
  }
  if (options.ranks_per_host < 1) return refuse("the ranks of a host", options.ranks_per_host);
  if (options.stands_for < 1) return refuse("the ranks a rank stands for", options.stands_for);
  if (options.hosts_per_rack < 0) return refuse("the hosts of a rack", options.hosts_per_rack);
  return absl::OkStatus();
}

SimLinks::SimLinks(int ranks, const LinkOptions& options)
    : options_(options),
      latency_(SimTimeOf(options.latency)),
      local_latency_(SimTimeOf(options.local_latency.value_or(options.latency))) {
  const auto hosts = static_cast<size_t>(host_of(ranks - 1)) + 1;
  const auto racks = static_cast<size_t>(rack_of(ranks - 1)) + 1;
  const auto count = static_cast<size_t>(ranks);
  sent_by_rank_.resize(count);
  sent_by_host_.resize(hosts);
  sent_by_rack_.resize(racks);
  const double local = options.local_bandwidth.value_or(options.rank_bandwidth);
  for (Place place : {kRankOut, kRankIn}) {
    servers_[place] = {std::vector<SimTime>(count), PerByte(options.rank_bandwidth),
                       PerByte(local)};
  }
  for (Place place : {kHostOut, kHostIn}) {
    servers_[place] = {std::vector<SimTime>(hosts), PerByte(options.host_bandwidth), 0};
  }
  for (Place place : {kRackOut, kRackIn}) {
    servers_[place] = {std::vector<SimTime>(racks), PerByte(options.rack_bandwidth), 0};
  }
}

void SimLinks::Push(SimTime at, Event event) {
  if (at <= now_) {
    present_.push_back(event);
    return;
  }
  if (last_used_ == future_.end() || last_used_->first != at) {
    if (spare_.empty()) {
      last_used_ = future_.try_emplace(at).first;
    } else {
      Moments::node_type node = std::move(spare_.back());
      spare_.pop_back();
      node.key() = at;
      auto inserted = future_.insert(std::move(node));
      if (!inserted.inserted) spare_.push_back(std::move(inserted.node));
      last_used_ = inserted.position;
    }
  }
  last_used_->second.push_back(event);
}

void SimLinks::SetTimer(SimTime at, int id) { Push(at, {Kind::kTimer, id}); }

std::optional<SimLinks::Event> SimLinks::NextOfNow() {
  while (next_ < present_.size()) {
    const Event event = present_[next_++];
    if (event.kind == Kind::kHead) {
      Travel(event.id);
      continue;
    }
    if (event.kind == Kind::kDelivered) free_messages_.push_back(event.id);
    return event;
  }
  return std::nullopt;
}

std::optional<SimLinks::Event> SimLinks::Next() {
  while (true) {
    if (const std::optional<Event> event = NextOfNow()) return event;
    if (future_.empty()) return std::nullopt;
    Moments::node_type node = future_.extract(future_.begin());
    last_used_ = future_.end();
    now_ = node.key();
    present_.clear();
    present_.swap(node.mapped());
    spare_.push_back(std::move(node));
    next_ = 0;
  }
}

int SimLinks::Send(int source, int destination, int64_t bytes) {
  int id = 0;
  if (free_messages_.empty()) {
    id = static_cast<int>(messages_.size());
    messages_.emplace_back();
  } else {
    id = free_messages_.back();
    free_messages_.pop_back();
  }
  messages_[id] = {source, destination, bytes, kRankOut, now_};
  Count(messages_[id]);
  Travel(id);
  return id;
}

void SimLinks::Count(const Message& message) {
  ++messages_sent_;
  sent_by_rank_[message.source] += message.bytes;
  const int host = host_of(message.source);
  if (host == host_of(message.destination)) return;
  sent_by_host_[host] += message.bytes;
  const int rack = rack_of(message.source);
  if (rack != rack_of(message.destination)) sent_by_rack_[rack] += message.bytes;
}

double SimLinks::PerByteAt(const Message& message) const {
  const Servers& servers = servers_[message.place];
  if (host_of(message.source) == host_of(message.destination)) return servers.per_local_byte;
  const bool rack = message.place == kRackOut || message.place == kRackIn;
  return rack && rack_of(message.source) == rack_of(message.destination) ? 0 : servers.per_byte;
}

size_t SimLinks::ServerOf(const Message& message) const {
  const int rank = message.place < kRackIn ? message.source : message.destination;
  switch (message.place) {
    case kHostOut:
    case kHostIn:
      return host_of(rank);
    case kRackOut:
    case kRackIn:
      return rack_of(rank);
    default:
      return rank;
  }
}

SimTime SimLinks::Queue(SimTime& free_at, SimTime cost) const {
  const SimTime start = std::max(now_, free_at);
  free_at = start + cost;
  return start;
}

void SimLinks::Travel(int id) {
  Message& message = messages_[id];
  SimTime head = now_;
  while (message.place < kPlaces) {
    if (const double per_byte = PerByteAt(message); per_byte > 0) {
      // Others may reach this place before.
      if (head > now_) {
        Push(head, {Kind::kHead, id});
        return;
      }
      const SimTime cost = std::llround(static_cast<double>(message.bytes) * per_byte);
      const bool shared = message.place != kRankOut && message.place != kRankIn;
      head = Queue(servers_[message.place].free_at[ServerOf(message)],
                   shared ? cost * options_.stands_for : cost);
      message.tail = std::max(message.tail, head + cost);
    }
    if (message.place == kRankOut) Push(message.tail, {Kind::kSent, id});
    if (message.place == kRackOut) {
      const bool local = host_of(message.source) == host_of(message.destination);
      head += local ? local_latency_ : latency_;
      message.tail += local ? local_latency_ : latency_;
    }
    ++message.place;
  }
  Push(message.tail, {Kind::kDelivered, id});
}

int64_t SimLinks::most_sent_by_rank() const { return Most(sent_by_rank_); }
int64_t SimLinks::most_sent_by_host() const { return Most(sent_by_host_); }
int64_t SimLinks::most_sent_by_rack() const { return Most(sent_by_rack_); }

}  // namespace rz
