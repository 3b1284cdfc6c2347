#include "collectives/simulation/closed_formula.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "collectives/hierarchy/hierarchy.h"
#include "collectives/plan.h"
#include "collectives/schedule/pairwise.h"
#include "collectives/simulation/staged_call.h"

namespace rz {
namespace {

constexpr double kPicosecondsInSecond = 1e12;

// Blocks of a lane that a rank sends and adds in each of `hops` hops.
struct Step {
  double hops = 0;
  double blocks = 0;
  bool adds = false;
  bool widened = false;  // they travel in the accumulator's format
  bool padded = false;   // they travel as slots
};

// Seconds, and seconds a byte: what a message waits for and what keeps a link busy.
struct LinkTerms {
  double alpha = 0;
  double beta_path = 0;
  double beta_busy = 0;
};

double PerByte(double bandwidth) { return bandwidth > 0 ? 1 / bandwidth : 0; }

void AppendHalving(int world, std::vector<Step>& steps) {
  for (int end = world, begin = world - world / 2; end > 1; end = begin, begin = end - end / 2) {
    const int count = end - begin;
    steps.push_back({1, static_cast<double>(count), true, false, count > 1});
  }
}

void AppendDoubling(int world, std::vector<Step>& steps) {
  for (int distance = 1; distance < world; distance *= 2) {
    steps.push_back({1, static_cast<double>(std::min(distance, world - distance))});
  }
}

void AppendPairwise(int world, std::vector<Step>& steps) {
  const int whole = (world - 1) / kPairwiseWindow;
  const int rest = (world - 1) % kPairwiseWindow;
  if (whole > 0) steps.push_back({static_cast<double>(whole), kPairwiseWindow, true});
  if (rest > 0) steps.push_back({1, static_cast<double>(rest), true});
}

std::vector<Step> StepsOf(const SimulatedCall& call) {
  std::vector<Step> steps;
  const double others = call.world - 1;
  const bool reduces = call.collective != Collective::kAllGather;
  const bool gathers = call.collective != Collective::kReduceScatter;
  if (call.collective != Collective::kAllReduce && reduces && gathers) return {};
  switch (call.algorithm) {
    case Algorithm::kRing:
    case Algorithm::kRingWire:
      if (reduces) steps.push_back({others, 1, true, call.partials() == Format::kAccumulator});
      if (gathers) steps.push_back({others, 1});
      return steps;
    case Algorithm::kPairwise:
      AppendPairwise(call.world, steps);
      if (gathers) steps.push_back({others, 1});
      return steps;
    case Algorithm::kHalving:
      AppendHalving(call.world, steps);
      if (gathers) AppendDoubling(call.world, steps);
      return steps;
    case Algorithm::kBruck:
      if (reduces) return {};  // another algorithm, with all lanes of all ranks
      AppendDoubling(call.world, steps);
      return steps;
    default:
      return {};
  }
}

LinkTerms FlatTerms(const LinkOptions& links) {
  const double beta = std::max(PerByte(links.rank_bandwidth), PerByte(links.host_bandwidth));
  return {absl::ToDoubleSeconds(links.latency), beta,
          std::max(beta, links.stands_for * PerByte(links.host_bandwidth))};
}

LinkTerms LocalTerms(const LinkOptions& links) {
  const double beta = PerByte(links.local_bandwidth.value_or(links.rank_bandwidth));
  return {absl::ToDoubleSeconds(links.local_latency.value_or(links.latency)), beta, beta};
}

LinkTerms RingTerms(const LinkOptions& links, double hosts_of_rack) {
  const LinkTerms local = LocalTerms(links);
  const LinkTerms host = FlatTerms(links);
  const double rack_beta = std::max(host.beta_path, PerByte(links.rack_bandwidth));
  // The share of ranks whose next one is on another host, in another rack.
  const double leaves_host = 1.0 / links.ranks_per_host;
  const double leaves_rack = hosts_of_rack == 0 ? 0 : leaves_host / hosts_of_rack;
  const auto mean = [&](double of_local, double of_host, double of_rack) {
    return (1 - leaves_host) * of_local + (leaves_host - leaves_rack) * of_host +
           leaves_rack * of_rack;
  };
  return {mean(local.alpha, host.alpha, host.alpha),
          mean(local.beta_path, host.beta_path, rack_beta),
          std::max({local.beta_path, host.beta_path, leaves_rack > 0 ? rack_beta : 0})};
}

LinkTerms PairwiseTerms(const LinkOptions& links, double world) {
  const double beta = PerByte(links.rank_bandwidth);
  // A host's ranks send to all others through one place, which is busy with one or another.
  const double ranks = links.ranks_per_host;
  const double host = ranks * (world - ranks) / (world - 1) * PerByte(links.host_bandwidth);
  return {absl::ToDoubleSeconds(links.latency), beta, std::max(beta, host)};
}

std::optional<LinkTerms> TermsOf(const SimulatedCall& call) {
  const LinkOptions& links = call.links;
  if (call.world <= links.ranks_per_host) return LocalTerms(links);
  const bool one_rack =
      links.hosts_per_rack == 0 || call.world <= links.ranks_per_host * links.hosts_per_rack;
  const double hosts_of_rack = one_rack || links.rack_bandwidth == 0 ? 0 : links.hosts_per_rack;
  const bool alike = links.ranks_per_host == 1 ||
                     (links.host_bandwidth == 0 && !links.local_latency && !links.local_bandwidth);
  if (alike && hosts_of_rack == 0) return FlatTerms(links);
  switch (call.algorithm) {
    case Algorithm::kPairwise:
      // All_reduce goes on as a ring: lanes in either half use other links at the same time.
      if (call.collective != Collective::kReduceScatter || hosts_of_rack > 0) return std::nullopt;
      return PairwiseTerms(links, call.world);
    case Algorithm::kRing:
    case Algorithm::kRingWire:
      return RingTerms(links, hosts_of_rack);
    default:
      return std::nullopt;
  }
}

// Of a slice's stages, in picoseconds.
struct StageTimes {
  double slices = 1;  // the last one may be a part of one
  double in = 0, out = 0;
  double waiting = 0, sending = 0;  // in a column

  double SizeOf(int slice) const { return std::clamp(slices - slice, 0.0, 1.0); }
};

// The host's memory serves the first stage of slice s + 2 before the last of slice s. A column's
// call sends after the one before it; where they share, it is as late as those that overtake it
// make it.
double StagedTime(const StageTimes& times, bool share) {
  constexpr int kAhead = Hierarchy::kSlicesUnderWay - 1;
  const int slices = std::max(1, static_cast<int>(std::ceil(times.slices)));
  std::vector<double> begun, over;  // by slice: its column's call
  double memory = 0;                // until when a host's is busy
  for (int next = 0; next < slices + kAhead; ++next) {
    if (next < slices) {
      memory += times.in * times.SizeOf(next);
      const double sending = times.sending * times.SizeOf(next);
      const double before = over.empty() ? 0 : over.back();
      begun.push_back(memory);
      over.push_back(std::max(memory + times.waiting, before) + sending);
    }
    const int slice = next - kAhead;
    if (slice < 0) continue;
    double end = over[slice];
    for (int later = slice + 1; share && later <= std::min(next, slices - 1); ++later) {
      if (begun[later] < over[slice]) end += times.sending * times.SizeOf(later);
    }
    memory = std::max(memory, end) + times.out * times.SizeOf(slice);
  }
  return memory;
}

// None where it matters much how the columns, and the slices under way, share the interface, or
// where that is about as busy as the memory within hosts: they wait for each other in turns then.
std::optional<SimTime> StagedFormula(const SimulatedCall& call) {
  constexpr double kMuch = 1.05;
  const absl::StatusOr<StageShape> shape = ShapeOf(call);
  if (!shape.ok() || !ColumnsAreAlike(call) || call.links.rack_bandwidth > 0) return std::nullopt;
  SimulatedCall at_once = shape->across;
  at_once.links.latency = absl::ZeroDuration();
  const std::optional<SimTime> across = ClosedFormula(shape->across);
  const std::optional<SimTime> sending = ClosedFormula(at_once);
  if (!across.has_value() || !sending.has_value()) return std::nullopt;
  StageTimes times = {.slices = shape->slices,
                      .in = static_cast<double>(SimTimeOf(shape->in)),
                      .out = static_cast<double>(SimTimeOf(shape->out)),
                      .waiting = static_cast<double>(*across - *sending),
                      .sending = static_cast<double>(*sending)};
  const double busier = times.sending / (times.in + times.out);
  if (times.slices > 1 && busier > 0.7 && busier < 1.5) return std::nullopt;
  const double least = StagedTime(times, /*share=*/false);
  times.waiting += static_cast<double>(shape->apart);
  const double most = StagedTime(times, /*share=*/true);
  if (most > kMuch * least) return std::nullopt;
  return std::llround((least + most) / 2);
}

}  // namespace

std::optional<SimTime> ClosedFormula(const SimulatedCall& call) {
  if (call.algorithm == Algorithm::kHierarchical) return StagedFormula(call);
  const std::vector<Step> steps = StepsOf(call);
  const Schedule no_schedule;
  const absl::StatusOr<Plan> plan = PlanOf(call, &no_schedule);
  const std::optional<LinkTerms> terms = TermsOf(call);
  if (steps.empty() || !plan.ok() || !terms.has_value()) return std::nullopt;
  if (call.count < call.world) return std::nullopt;
  const double gamma = PerByte(call.reduce_bandwidth);
  if (call.algorithm == Algorithm::kHalving && gamma > 0 && plan->lane_count() > 1) {
    return std::nullopt;
  }
  double seconds = 0;
  for (const Step& step : steps) {
    const double element = static_cast<double>(
        plan->arithmetic.SizeOfFormat(step.widened ? Format::kAccumulator : Format::kWire));
    const auto size = static_cast<double>(SizeOf(call.dtype));
    for (int64_t first = 0; first < plan->lane_count(); first += call.lanes_in_flight) {
      const int64_t end = std::min<int64_t>(first + call.lanes_in_flight, plan->lane_count());
      double largest = 0, together = 0, adding = 0, all_adding = 0;
      for (int64_t lane = first; lane < end; ++lane) {
        const auto count = static_cast<double>(plan->lanes.Block(plan->At(lane), 0).count);
        const double block =
            step.padded ? static_cast<double>(plan->SlotBytes(Format::kWire)) : count * element;
        const double added = step.adds ? step.blocks * count * size : 0;
        largest = std::max(largest, step.blocks * block);
        adding = std::max(adding, added);
        together += step.blocks * block;
        all_adding += added;
      }
      const double waiting = terms->alpha + largest * terms->beta_path + adding * gamma;
      const double busy = together * terms->beta_busy;
      const bool shared =
          call.algorithm == Algorithm::kPairwise && terms->beta_busy > terms->beta_path;
      if (shared && busy < waiting && 2 * busy > waiting) return std::nullopt;
      seconds += step.hops * std::max({waiting, busy, all_adding * gamma});
    }
  }
  return std::llround(seconds * kPicosecondsInSecond);
}

}  // namespace rz
