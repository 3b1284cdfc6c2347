// The floors of the house and who may enter whom: doors open downward only.
//
// A door is an #include of one of our headers, an #include of a foreign library, or a dependency in
// a BUILD file. The rules stand in layering.cc as two tables and are applied to the whole tree by
// layering_test.
#ifndef RINGZERO_TESTS_LAYERING_H_
#define RINGZERO_TESTS_LAYERING_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rz::testing {

// The reason why `from` (a file of the tree, e.g. "collectives/executor.cc") must not use `to` (an
// include path such as "ucp/api/ucp.h" or "runtime/base/clock.h", or a label such as "//tools:x");
// nothing where it may. Tests may also use siblings and what is above their unit, below the tools.
std::optional<std::string> ForbiddenBecause(const std::string& from, const std::string& to,
                                            bool for_test = false);

struct Edge {
  std::string from;
  int line = 0;
  std::string to;
  bool for_test = false;  // of a BUILD file: a test's or a testonly rule's
};

// Every door of the tree under `root`: includes of *.h, *.cc, *.cu and labels in BUILD files.
std::vector<Edge> ReadEdges(const std::filesystem::path& root);

}  // namespace rz::testing

#endif  // RINGZERO_TESTS_LAYERING_H_
