// The conformance suite: what every Transport must pass.
#ifndef RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SCENARIOS_H_
#define RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SCENARIOS_H_

#include <ostream>
#include <string>
#include <vector>

#include "runtime/transport/conformance/scenario.h"

namespace rz::conformance {

// Messages: sizes, order, early and late, truncation, many, random.
std::vector<Scenario> MessageScenarios();

// Ends: abort, death, leaving, refusals, waking.
std::vector<Scenario> EndingScenarios();

// One scenario in one world.
struct Case {
  Scenario scenario;
  int world;
  uint64_t seed;
};

// Every scenario that a backend with `capabilities` can run, in each of its worlds up to
// `largest_world`; those that depend on the seed, with `seeds` seeds.
std::vector<Case> AllCases(Capabilities capabilities, int largest_world, int seeds);

// "OrderPerTag_world3_seed1": a test's name.
std::string NameOf(const Case& c);
std::ostream& operator<<(std::ostream& os, const Case& c);

}  // namespace rz::conformance

#endif  // RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SCENARIOS_H_
