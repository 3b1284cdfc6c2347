#include "runtime/transport/sim/sim_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/transport/sim/sim_transport.h"

namespace rz {
namespace {

constexpr size_t kReportedWaits = 64;

std::unique_ptr<SimLinks> LinksOf(int endpoints, const SimOptions& options) {
  if (!options.links.has_value()) return nullptr;
  return std::make_unique<SimLinks>(endpoints, *options.links);
}

}  // namespace

SimWorld::SimWorld(int world_size, SimOptions options)
    : endpoints_(world_size),
      options_(std::move(options)),
      network_(world_size, options_.seed, LinksOf(world_size, options_)),
      memory_(options_.hosts) {
  for (int i = 0; i < world_size; ++i) {
    transports_.push_back(std::make_unique<SimTransport>(this, i, options_.connected));
  }
}

SimWorld::~SimWorld() = default;

Transport* SimWorld::transport(Rank rank) { return transports_[rank.value()].get(); }

bool SimWorld::IsDead(Rank rank) const { return transports_[rank.value()]->dead_; }

void SimWorld::Kill(Rank victim, bool silent) {
  SimTransport& transport = *transports_[victim.value()];
  if (transport.dead_) return;
  transport.dead_ = true;
  transport.death_is_known_ = !silent;
  network_.Die(victim.value(), silent,
               absl::UnavailableError(absl::StrCat("rank ", victim.value(), " is dead")));
}

void SimWorld::CheckFault() {
  if (!options_.fault.has_value() || network_.events() < options_.fault->at_event) return;
  const SimFault fault = *options_.fault;
  options_.fault.reset();
  Kill(fault.victim, fault.silent);
}

absl::Status SimWorld::CheckPeer(int endpoint, Rank peer) const {
  if (!transports_[endpoint]->death_is_known_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("rank ", peer.value(), " is dead"));
}

bool SimWorld::DrawEager() {
  if (links() != nullptr) return true;
  switch (options_.send_mode) {
    case SendMode::kEager:
      return true;
    case SendMode::kRendezvous:
      return false;
    case SendMode::kMixed:
      return network_.random().Coin();
  }
  return true;
}

void SimWorld::DeliverSome() {
  if (links() != nullptr) return;
  const uint64_t bound = 2 + network_.in_flight() / transports_.size();
  for (uint64_t n = network_.random().Below(bound + 1); n > 0; --n) {
    CheckFault();
    if (!network_.DeliverOne()) return;
  }
}

int SimWorld::PickRank(const std::vector<bool>& done) {
  const int world = world_size();
  const int start = static_cast<int>(network_.random().Below(world));
  int any = -1;
  constexpr uint64_t kAnyRankOneIn = 8;
  const bool take_any = network_.random().Below(kAnyRankOneIn) == 0;
  for (int i = 0; i < world; ++i) {
    const int rank = (start + i) % world;
    if (done[rank] || transports_[rank]->dead_) continue;
    if (take_any || HasCompletions(rank)) return rank;
    if (any < 0) any = rank;
  }
  return any;
}

bool SimWorld::PollInTurn(absl::Span<const std::function<bool()>> ranks, std::vector<bool>& done) {
  const int64_t events = network_.events();
  const uint32_t memory = memory_.Checksum();
  for (int pass = 0; pass < options_.idle_polls; ++pass) {
    for (int rank = 0; rank < world_size(); ++rank) {
      if (done[rank] || transports_[rank]->dead_) continue;
      const bool told = HasCompletions(rank);
      done[rank] = ranks[rank]();
      if (done[rank] || told || network_.events() != events) return true;
    }
  }
  return memory_.Checksum() != memory;
}

bool SimWorld::Step() {
  if (!network_.DeliverOne()) return false;
  const absl::Duration ahead =
      absl::Floor(DurationOf(links()->now()), absl::Nanoseconds(1)) - clock_.Now();
  if (ahead > absl::ZeroDuration()) clock_.Advance(ahead);
  return true;
}

absl::Status SimWorld::RunInTime(absl::Span<const std::function<bool()>> ranks) {
  std::vector<bool> done(ranks.size(), false);
  std::vector<bool> due(ranks.size(), true);
  bool time_passed = false;
  while (true) {
    bool all_done = true;
    for (int rank = 0; rank < world_size(); ++rank) {
      bool poll = due[rank] || HasCompletions(rank);
      while (poll && !done[rank] && !transports_[rank]->dead_) {
        const int64_t events = network_.events();
        const bool told = HasCompletions(rank);
        done[rank] = ranks[rank]();
        CheckFault();
        poll = told || network_.events() != events;
      }
      due[rank] = false;
      all_done &= done[rank] || transports_[rank]->dead_;
    }
    if (all_done) return absl::OkStatus();
    // What a rank writes into shared memory is there at once, and others are not told of it.
    const bool saw_memory = !options_.hosts.empty() && PollInTurn(ranks, done);
    if (saw_memory || Step() || PollInTurn(ranks, done)) {
      time_passed = false;
    } else if (!time_passed) {
      time_passed = true;
      clock_.Advance(options_.last_resort);
      due.assign(ranks.size(), true);
    } else {
      return absl::FailedPreconditionError(absl::StrCat("deadlock: ", WaitingReport()));
    }
  }
}

absl::Status SimWorld::Run(absl::Span<const std::function<bool()>> ranks) {
  if (links() != nullptr) return RunInTime(ranks);
  std::vector<bool> done(ranks.size(), false);
  int idle_polls = 0;
  bool time_passed = false;
  while (true) {
    const int rank = PickRank(done);
    if (rank < 0) return absl::OkStatus();
    const int64_t events = network_.events();
    const bool told = HasCompletions(rank);
    done[rank] = ranks[rank]();
    CheckFault();
    if (!told) network_.DeliverOne();
    if (done[rank] || told || network_.events() != events) {
      idle_polls = 0;
      time_passed = false;
      continue;
    }
    if (++idle_polls < world_size()) continue;
    idle_polls = 0;
    if (PollInTurn(ranks, done)) {
      time_passed = false;
    } else if (!time_passed) {
      time_passed = true;
      clock_.Advance(options_.last_resort);
    } else {
      return absl::FailedPreconditionError(absl::StrCat("deadlock: ", WaitingReport()));
    }
  }
}

std::string SimWorld::WaitingReport() const {
  std::vector<std::string> lines = network_.Waiting();
  const size_t total = lines.size();
  lines.resize(std::min(total, kReportedWaits));
  std::string report = absl::StrJoin(lines, "; ");
  if (total > kReportedWaits) absl::StrAppend(&report, "; and ", total - kReportedWaits, " more");
  for (const auto& transport : transports_) {
    if (transport->dead_) absl::StrAppend(&report, "; rank ", transport->endpoint_, " is dead");
  }
  return report;
}

}  // namespace rz
