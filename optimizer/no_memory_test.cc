// A rank that has no memory for what it is about to start fails its communicator: the others hear
// of that, and do not wait for it.
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <memory>

#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::SimRanks;
using ::rz::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kElements = int64_t{4} << 20;

// While it lives the process gets next to no more memory.
class NoMemory {
 public:
  NoMemory() {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    const rlimit limit = {static_cast<rlim_t>(pages * 4096 + (int64_t{1} << 20)), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~NoMemory() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_ = {};
};

std::unique_ptr<SimRanks> MakeRanks() {
  ZeroConfig config;
  config.stage = ZeroStage::kThree;
  config.dtype = DType::kFloat32;
  config.optimizer = DefaultsOf(OptimizerKind::kSgd);
  auto ranks = SimRanks::Create(2, "", {{"w", {kElements}, 0}}, config);
  EXPECT_OK(ranks.status());
  return *std::move(ranks);
}

const ZeroOptimizer::Initializer kZeros = [](size_t, absl::Span<float>) {};

TEST(NoMemoryTest, AGatherThatCannotStartFailsTheCommunicator) {
  const auto ranks = MakeRanks();
  ASSERT_THAT(ranks->Initialize(kZeros), Each(IsOk()));
  {
    const NoMemory none;
    EXPECT_THAT(ranks->optimizer(0).StartGather(0, Pass::kForward),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_THAT(ranks->communicator(0).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("gathered")));
}

TEST(NoMemoryTest, AnInitializationThatCannotStartFailsTheCommunicator) {
  const auto ranks = MakeRanks();
  {
    const NoMemory none;
    EXPECT_THAT(ranks->optimizer(0).StartInitialize(kZeros),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_THAT(ranks->communicator(0).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("scratch")));
}

}  // namespace
}  // namespace rz
