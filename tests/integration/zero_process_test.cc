// Optimizers of real processes: what one rank waits for while the others are elsewhere, and kernels
// on a progress thread. A simulation in one thread can show neither.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_macros.h"
#include "tests/integration/process_job.h"

namespace rz {
namespace {

using ::rz::testing::RunInProcesses;
using ::testing::Each;

constexpr int kWorld = 3;
constexpr size_t kUnits = 3;
constexpr int64_t kElements = 200'000;  // of a unit
constexpr int kRounds = 5;

UcxOptions Tcp() {
  UcxOptions options;
  options.transports = UcxOptions::Transports::kTcp;
  options.net_device = "lo";
  return options;
}

std::string TextOf(const absl::Status& status) { return status.ok() ? "" : status.ToString(); }

absl::Status Fill(ZeroOptimizer& optimizer, float value) {
  return optimizer.Initialize(
      [value](size_t, absl::Span<float> values) { std::ranges::fill(values, value); });
}

absl::StatusOr<std::unique_ptr<ZeroOptimizer>> Make(Communicator* comm, const ZeroConfig& config) {
  std::vector<ParamSpec> specs;
  for (size_t unit = 0; unit < kUnits; ++unit) {
    specs.push_back({absl::StrCat("w", unit), {kElements}, static_cast<int>(unit)});
  }
  RZ_ASSIGN_OR_RETURN(auto optimizer, ZeroOptimizer::Create(comm, std::move(specs), config));
  RZ_RETURN_IF_ERROR(Fill(*optimizer, 1));
  return optimizer;
}

absl::Status Step(ZeroOptimizer& optimizer) {
  const std::vector<float> gradient(kElements, 0.5F);
  for (size_t p = kUnits; p-- > 0;) RZ_RETURN_IF_ERROR(optimizer.AddGradient(p, gradient));
  return optimizer.Step({}).status();
}

ZeroConfig Behind() {
  ZeroConfig config;
  config.stage = ZeroStage::kOne;
  config.dtype = DType::kFloat32;
  config.announce_gradients = true;
  config.gather_behind_forward = true;
  config.reduce_bucket_size = kElements / 4;
  config.optimizer = DefaultsOf(OptimizerKind::kSgd);
  return config;
}

// Rounds of a step, after which the optimizer goes while parameters are on their way.
absl::Status DestroyBehindSteps(Transport* transport) {
  RZ_ASSIGN_OR_RETURN(const auto comm, Communicator::Create(transport, {}));
  for (int round = 0; round < kRounds; ++round) {
    {
      RZ_ASSIGN_OR_RETURN(const auto optimizer, Make(comm.get(), Behind()));
      RZ_RETURN_IF_ERROR(Step(*optimizer));
    }
    float sum = 1;
    RZ_RETURN_IF_ERROR(comm->AllReduce(&sum, &sum, 1, DType::kFloat32, ReduceOp::kSum));
    if (sum != kWorld) return absl::DataLossError(absl::StrCat("the sum is ", sum));
  }
  return absl::OkStatus();
}

TEST(ZeroProcessTest, AnOptimizerThatIsDestroyedBehindAStepLeavesItsCommunicatorWell) {
  EXPECT_THAT(
      RunInProcesses(kWorld, Tcp(),
                     [](Transport* transport) { return TextOf(DestroyBehindSteps(transport)); }),
      Each(""));
}

// Whatever changes parameters comes while units are on their way that nobody waits for.
absl::Status PrefetchInVain(Transport* transport) {
  RZ_ASSIGN_OR_RETURN(const auto comm, Communicator::Create(transport, {}));
  ZeroConfig config = Behind();
  config.stage = ZeroStage::kThree;
  config.gather_behind_forward = false;
  RZ_ASSIGN_OR_RETURN(const auto optimizer, Make(comm.get(), config));
  const auto prefetch = [&](Pass pass) -> absl::Status {
    for (size_t unit = 0; unit < kUnits; ++unit) {
      RZ_RETURN_IF_ERROR(optimizer->StartGather(unit, pass));
    }
    return absl::OkStatus();
  };
  for (int round = 0; round < kRounds; ++round) {
    RZ_RETURN_IF_ERROR(prefetch(Pass::kForward));
    RZ_RETURN_IF_ERROR(optimizer->Step({}).status());
    RZ_RETURN_IF_ERROR(prefetch(Pass::kEvaluation));
    RZ_RETURN_IF_ERROR(optimizer->Resume(round));
    RZ_RETURN_IF_ERROR(prefetch(Pass::kEvaluation));
    RZ_RETURN_IF_ERROR(Fill(*optimizer, 1));
  }
  return absl::OkStatus();
}

TEST(ZeroProcessTest, StepsAndLoadsWaitForWhatIsStillGathered) {
  EXPECT_THAT(
      RunInProcesses(kWorld, Tcp(),
                     [](Transport* transport) { return TextOf(PrefetchInVain(transport)); }),
      Each(""));
}

// What a few steps make of parameters and states, as bytes.
absl::StatusOr<std::string> Train(Communicator* comm, const ZeroConfig& config) {
  RZ_ASSIGN_OR_RETURN(const auto optimizer, Make(comm, config));
  for (int step = 0; step < kRounds; ++step) {
    for (size_t p = kUnits; p-- > 0;) {
      std::vector<float> gradient(kElements);
      for (size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = static_cast<float>(static_cast<int>(i % 13) - 6 + step) *
                      static_cast<float>(comm->rank().value() + 1) / 64;
      }
      RZ_RETURN_IF_ERROR(optimizer->AddGradient(p, gradient));
    }
    RZ_RETURN_IF_ERROR(optimizer->Step({}).status());
  }
  std::string bits;
  const auto append = [&bits](const auto& values) {
    bits.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  for (size_t p = 0; p < kUnits; ++p) append(optimizer->Params<uint16_t>(p));
  append(optimizer->master());
  for (const size_t state : {0, 1}) append(optimizer->optimizer_state(state));
  return bits;
}

absl::Status FuseOnAThread(Transport* transport) {
  RZ_ASSIGN_OR_RETURN(const auto comm, Communicator::Create(transport, {}));
  RZ_RETURN_IF_ERROR(comm->ShareMemory());
  ZeroConfig config;
  config.stage = ZeroStage::kOne;
  config.announce_gradients = true;
  config.reduce_bucket_size = kElements / 16;
  config.fuse_step = false;
  RZ_ASSIGN_OR_RETURN(const std::string expected, Train(comm.get(), config));
  config.fuse_step = true;
  for (const bool inspected : {true, false}) {
    for (const ProgressThreadUse thread : {ProgressThreadUse::kOff, ProgressThreadUse::kOn}) {
      config.inspect_gradients = inspected;
      config.progress_thread = thread;
      RZ_ASSIGN_OR_RETURN(const std::string bits, Train(comm.get(), config));
      if (bits == expected) continue;
      return absl::DataLossError(absl::StrCat("other bits: inspected ", inspected, ", thread ",
                                              thread == ProgressThreadUse::kOn));
    }
  }
  return absl::OkStatus();
}

TEST(ZeroProcessTest, AFusedStepGivesTheSameBitsOnAProgressThread) {
  EXPECT_THAT(
      RunInProcesses(2, {}, [](Transport* transport) { return TextOf(FuseOnAThread(transport)); }),
      Each(""));
}

}  // namespace
}  // namespace rz
