// Proves from the sources and the BUILD files that doors open downward only, and prints the edge
// that breaks it.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/layering.h"

namespace rz::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

// The tree the test was built from: its WORKSPACE is a runfile that links there.
std::filesystem::path SourceRoot() { return std::filesystem::canonical("WORKSPACE").parent_path(); }

TEST(LayeringTest, TheTreeHasNoForbiddenDoor) {
  const std::vector<Edge> edges = ReadEdges(SourceRoot());
  ASSERT_GT(edges.size(), 200u) << "too few edges found under " << SourceRoot();
  for (const Edge& edge : edges) {
    const auto reason = ForbiddenBecause(edge.from, edge.to, edge.for_test);
    EXPECT_FALSE(reason.has_value())
        << edge.from << ":" << edge.line << " uses " << edge.to << ": " << *reason;
  }
}

TEST(LayeringTest, EveryDirectoryWithSourcesIsARoom) {
  for (const Edge& edge : ReadEdges(SourceRoot())) {
    EXPECT_EQ(ForbiddenBecause(edge.from, "runtime/base/types.h"), std::nullopt) << edge.from;
  }
}

TEST(LayeringTest, DoorsDownAreOpen) {
  EXPECT_EQ(ForbiddenBecause("collectives/executor.cc", "runtime/transport/transport.h"),
            std::nullopt);
  EXPECT_EQ(ForbiddenBecause("optimizer/zero_optimizer.cc", "collectives/communicator.h"),
            std::nullopt);
  EXPECT_EQ(ForbiddenBecause("runtime/transport/ucx/ucx_transport.cc", "ucp/api/ucp.h"),
            std::nullopt);
  EXPECT_EQ(ForbiddenBecause("runtime/rendezvous/server.cc", "proto/rendezvous.pb.h"),
            std::nullopt);
  EXPECT_EQ(ForbiddenBecause("tools/rz_train.cc", "vector"), std::nullopt);
}

TEST(LayeringTest, DoorsUpAreShut) {
  EXPECT_THAT(ForbiddenBecause("runtime/base/clock.cc", "collectives/communicator.h"),
              Optional(HasSubstr("above")));
  EXPECT_THAT(ForbiddenBecause("collectives/executor.cc", "//optimizer:zero_optimizer"),
              Optional(HasSubstr("above")));
  EXPECT_THAT(ForbiddenBecause("runtime/job.cc", "//optimizer"), Optional(HasSubstr("above")));
  EXPECT_THAT(ForbiddenBecause("optimizer/zero_optimizer.cc", "//tools:flag_set"),
              Optional(HasSubstr("above")));
}

TEST(LayeringTest, SiblingsNeverSeeEachOther) {
  EXPECT_THAT(ForbiddenBecause("runtime/transport/ucx/ucx_transport.cc",
                               "runtime/transport/sim/sim_world.h"),
              Optional(HasSubstr("siblings")));
  EXPECT_THAT(ForbiddenBecause("runtime/rendezvous/server.cc", "//runtime/transport/ucx:x"),
              Optional(HasSubstr("siblings")));
}

TEST(LayeringTest, ForeignLibrariesStayBehindTheirBorder) {
  for (const char* header : {"ucp/api/ucp.h", "grpcpp/grpcpp.h", "cuda_runtime.h",
                             "proto/rendezvous.pb.h", "nccl.h", "mpi.h"}) {
    EXPECT_THAT(ForbiddenBecause("collectives/executor.cc", header), Optional(HasSubstr("not to")))
        << header;
  }
  EXPECT_THAT(ForbiddenBecause("tools/rz_bench.cc", "nccl.h"), Optional(HasSubstr("not to")));
}

}  // namespace
}  // namespace rz::testing
