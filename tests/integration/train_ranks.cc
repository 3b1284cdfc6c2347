#include "tests/integration/train_ranks.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace rz::testing {

Arguments Concat(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Ending TrainRanks(int ranks, const Arguments& arguments,
                  const Subprocess::Environment& environment) {
  Subprocess program(Concat({ProgramPath("tools/rz_run"), "-n", absl::StrCat(ranks), "--",
                             ProgramPath("tools/rz_train")},
                            arguments),
                     "", environment);
  return EndOf(program);
}

std::string WeightsOf(const Ending& run) {
  const std::string label = "weights crc32c ";
  const size_t at = run.out.find(label);
  return at == std::string::npos ? "" : run.out.substr(at + label.size(), 8);
}

}  // namespace rz::testing
