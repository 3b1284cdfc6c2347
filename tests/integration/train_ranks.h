// rz_train on several ranks under rz_run, for the tests of it in real processes.
#ifndef RINGZERO_TESTS_INTEGRATION_TRAIN_RANKS_H_
#define RINGZERO_TESTS_INTEGRATION_TRAIN_RANKS_H_

#include <string>
#include <vector>

#include "tests/integration/subprocess.h"

namespace rz::testing {

using Arguments = std::vector<std::string>;

Arguments Concat(Arguments a, const Arguments& b);

// Runs rz_train with `arguments` on `ranks` ranks to its end.
Ending TrainRanks(int ranks, const Arguments& arguments,
                  const Subprocess::Environment& environment = {});

// The checksum of the weights that the run printed, "0A1B2C3D", or nothing.
std::string WeightsOf(const Ending& run);

}  // namespace rz::testing

#endif  // RINGZERO_TESTS_INTEGRATION_TRAIN_RANKS_H_
