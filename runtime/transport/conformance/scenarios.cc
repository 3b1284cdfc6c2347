#include "runtime/transport/conformance/scenarios.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace rz::conformance {

std::vector<Case> AllCases(Capabilities capabilities, int largest_world, int seeds) {
  std::vector<Scenario> scenarios = MessageScenarios();
  for (Scenario& scenario : EndingScenarios()) scenarios.push_back(std::move(scenario));
  std::vector<Case> cases;
  for (const Scenario& scenario : scenarios) {
    if ((capabilities & scenario.needs) != scenario.needs) continue;
    for (int world : scenario.worlds) {
      if (world > largest_world) continue;
      for (int seed = 1; seed <= (scenario.random ? seeds : 1); ++seed) {
        cases.push_back({scenario, world, static_cast<uint64_t>(seed)});
      }
    }
  }
  return cases;
}

std::string NameOf(const Case& c) {
  return absl::StrCat(c.scenario.name, "_world", c.world, "_seed", c.seed);
}

std::ostream& operator<<(std::ostream& os, const Case& c) { return os << NameOf(c); }

}  // namespace rz::conformance
