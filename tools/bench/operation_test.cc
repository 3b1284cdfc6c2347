#include "tools/bench/operation.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using Op = BenchOperation;
using ::rz::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OperationTest, TheTableIsInTheOrderOfTheValues) {
  for (Op operation : AllOperations()) EXPECT_EQ(TraitsOf(operation).operation, operation);
  EXPECT_EQ(AllOperations().size(), 13);
}

TEST(OperationTest, EveryNameParsesBack) {
  for (Op operation : AllOperations()) {
    const auto parsed = ParseOperations({std::string(NameOf(operation))});
    ASSERT_OK(parsed.status());
    EXPECT_THAT(*parsed, ElementsAre(operation));
  }
}

TEST(OperationTest, AliasesAndNcclTestsNamesParse) {
  const auto parsed = ParseOperations({"allreduce", "reducescatter", "all_gather_perf", "bcast",
                                       "alltoallv", "send_recv", "reduce_scatter_perf"});
  ASSERT_OK(parsed.status());
  EXPECT_THAT(*parsed, ElementsAre(Op::kAllReduce, Op::kReduceScatter, Op::kAllGather,
                                   Op::kBroadcast, Op::kAllToAllV, Op::kSendRecv));
}

TEST(OperationTest, AllStandsForEachOnce) {
  const auto parsed = ParseOperations({"barrier", "all"});
  ASSERT_OK(parsed.status());
  EXPECT_EQ(parsed->size(), AllOperations().size());
  EXPECT_EQ(parsed->front(), Op::kBarrier);
}

TEST(OperationTest, UnknownNamesAreRefusedWithTheNearest) {
  EXPECT_THAT(ParseOperations({"all_redcue"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean all_reduce?")));
  EXPECT_THAT(ParseOperations({}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(OperationTest, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(Op::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(BusFactor(Op::kAllReduce, 1), 0);
  for (Op operation : {Op::kReduceScatter, Op::kAllGather, Op::kAllToAll, Op::kGather, Op::kScatter,
                       Op::kReduceScatterV, Op::kAllGatherV, Op::kAllToAllV}) {
    EXPECT_DOUBLE_EQ(BusFactor(operation, 4), 0.75) << NameOf(operation);
  }
  for (Op operation : {Op::kBroadcast, Op::kReduce, Op::kSendRecv}) {
    EXPECT_DOUBLE_EQ(BusFactor(operation, 4), 1) << NameOf(operation);
  }
}

}  // namespace
}  // namespace rz
