#include "tests/integration/hand_started_ranks.h"

#include <csignal>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

namespace rz::testing {

void HandStartedRanks::SetUp() {
  rendezvous_ = std::make_unique<Subprocess>(
      std::vector<std::string>{ProgramPath("tools/rz_rendezvous"), "--listen", "127.0.0.1:0"});
  ASSERT_TRUE(rendezvous_->WaitForOutput("\n"));
  const std::string line = rendezvous_->Output().substr(0, rendezvous_->Output().find('\n'));
  ASSERT_THAT(line, ::testing::HasSubstr("listens on 127.0.0.1:"));
  address_ = line.substr(line.rfind(' ') + 1);
}

void HandStartedRanks::TearDown() {
  if (rendezvous_ == nullptr) return;
  rendezvous_->Signal(SIGTERM);
  EXPECT_EQ(EndOf(*rendezvous_).exit_code, 0);
}

std::unique_ptr<Subprocess> HandStartedRanks::StartRank(
    int rank, int world, const std::vector<std::string>& arguments) const {
  std::vector<std::string> command = {ProgramPath("tools/rz_train")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return std::make_unique<Subprocess>(
      command, "",
      Subprocess::Environment{{"RZ_RENDEZVOUS", address_},
                              {"RZ_WORLD_SIZE", absl::StrCat(world)},
                              {"RZ_RANK", absl::StrCat(rank)}});
}

}  // namespace rz::testing
