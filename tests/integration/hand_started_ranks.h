// A test whose ranks are programs that are started one by one, as in several terminals, and meet at
// a rendezvous that the test runs.
#ifndef RINGZERO_TESTS_INTEGRATION_HAND_STARTED_RANKS_H_
#define RINGZERO_TESTS_INTEGRATION_HAND_STARTED_RANKS_H_

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/subprocess.h"

namespace rz::testing {

class HandStartedRanks : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Rank `rank` of `world`: rz_train with `arguments`.
  std::unique_ptr<Subprocess> StartRank(int rank, int world,
                                        const std::vector<std::string>& arguments) const;

  std::unique_ptr<Subprocess> rendezvous_;  // null: it has been killed
  std::string address_;                     // its own
};

}  // namespace rz::testing

#endif  // RINGZERO_TESTS_INTEGRATION_HAND_STARTED_RANKS_H_
