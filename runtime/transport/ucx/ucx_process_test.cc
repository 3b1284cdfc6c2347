// The conformance suite on UCX, each rank a process. The parent never uses UCX.
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "runtime/transport/conformance/scenarios.h"
#include "runtime/transport/conformance/worlds.h"
#include "runtime/transport/ucx/conformance_options.h"
#include "runtime/transport/ucx/ucx_transport.h"

namespace rz {
namespace {

using conformance::Case;

constexpr conformance::Capabilities kCapabilities = conformance::kReportsPeerDeath |
                                                    conformance::kReportsPeerAbort |
                                                    conformance::kCanDie | conformance::kRealTime;

class UcxProcessTest : public ::testing::TestWithParam<Case> {
 protected:
  static void Run(const UcxOptions& options) {
    const auto factory = [&options] { return CreateUcxTransport(options); };
    const std::vector<std::string> failures =
        conformance::RunInProcesses(GetParam(), kCapabilities, factory);
    EXPECT_TRUE(failures.empty()) << absl::StrJoin(failures, "\n");
  }
};

TEST_P(UcxProcessTest, Tcp) { Run(TcpOptions()); }
TEST_P(UcxProcessTest, SharedMemory) { Run(SharedMemoryOptions()); }
TEST_P(UcxProcessTest, Automatic) { Run(AutomaticOptions()); }

INSTANTIATE_TEST_SUITE_P(All, UcxProcessTest,
                         ::testing::ValuesIn(conformance::AllCases(kCapabilities, 8, 8)),
                         [](const auto& info) { return conformance::NameOf(info.param); });

}  // namespace
}  // namespace rz
