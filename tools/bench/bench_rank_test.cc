#include "tools/bench/bench_rank.h"

#include <cstddef>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/exit_code.h"

namespace rz {
namespace {

using ::testing::HasSubstr;

// Runs the library's call and spoils one byte of what it left.
class SpoiledSubject : public Subject {
 public:
  explicit SpoiledSubject(Communicator* communicator) : subject_(communicator) {}

  absl::Status Run(const MeasuredCall& call) override {
    absl::Status status = subject_.Run(call);
    *static_cast<std::byte*>(call.calls[0].recv) ^= std::byte{1};
    return status;
  }

 private:
  CommunicatorSubject subject_;
};

// A world of one.
BenchConfig Config() {
  BenchConfig config;
  config.operations = {BenchOperation::kAllReduce};
  config.sizes = {1024};
  config.dtypes = {DType::kFloat32};
  config.ops = {ReduceOp::kSum};
  config.plan.iterations = 1;
  return config;
}

TEST(BenchRankTest, RightResultsEndWell) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(RunRank(Config(), JobEnvironment()), kExitOk);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("values : 0 OK"));
}

TEST(BenchRankTest, AWrongResultFails) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunRank(Config(), JobEnvironment(),
                    [](Communicator* communicator) {
                      return std::make_unique<SpoiledSubject>(communicator);
                    }),
            kExitFailure);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("values : 2 FAILED"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "rz_bench: 2 elements are wrong\n");
}

TEST(BenchRankTest, ARootOutsideTheWorldIsNamed) {
  BenchConfig config = Config();
  config.root = 5;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunRank(config, JobEnvironment()), kExitFailure);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("-r 5 is not a rank"));
}

}  // namespace
}  // namespace rz
