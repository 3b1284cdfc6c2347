// The conformance suite on UCX, each rank a thread.
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

constexpr conformance::Capabilities kCapabilities =
    conformance::kReportsPeerAbort | conformance::kRealTime;

class UcxConformanceTest : public ::testing::TestWithParam<Case> {
 protected:
  static void Run(const UcxOptions& options) {
    const auto factory = [&options] { return CreateUcxTransport(options); };
    const std::vector<std::string> failures =
        conformance::RunInThreads(GetParam(), kCapabilities, factory);
    EXPECT_TRUE(failures.empty()) << absl::StrJoin(failures, "\n");
  }
};

TEST_P(UcxConformanceTest, Tcp) { Run(TcpOptions()); }
TEST_P(UcxConformanceTest, SharedMemory) { Run(SharedMemoryOptions()); }

INSTANTIATE_TEST_SUITE_P(All, UcxConformanceTest,
                         ::testing::ValuesIn(conformance::AllCases(kCapabilities, 8, 5)),
                         [](const auto& info) { return conformance::NameOf(info.param); });

}  // namespace
}  // namespace rz
